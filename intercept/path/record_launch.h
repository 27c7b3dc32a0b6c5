// Writes the record of one launch (profiles/launch_record.h). It goes into the thread's lane if the driver took the
// launch and its values fit a lane record, else into the ring of the process. Times on the device are added if they
// are measured. Called by PassLaunch, from any thread. There is no allocation, lock or system call once a thread,
// kernel and stream have been seen before.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/facts/streams.h"
#include "intercept/launch/launch.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/kernel_names.h"
#include "intercept/record/recorder.h"
#include "profiles/launch_record.h"

namespace cupola::intercept {

/// Fills `record`, except its call times, result and sequence.
void Describe(const Launch& launch, bool captured, LaunchRecord* record) noexcept;

/// Makes a launch by `call(data)` between a pair of events that measure it, and records it. Returns what the driver
/// returned. Out of line, since it costs microseconds anyway.
CUresult LaunchTimed(RingWriter& ring, const Launch& launch,
                     CUresult (*call)(void*), void* data);

/// Records in the ring a launch that was made and was not recorded in a lane. Times are in nanoseconds.
void RecordInRing(RingWriter& ring, const Launch& launch, bool captured, CUresult result,
                  uint64_t start_ns, uint64_t call_ns) noexcept;

/// Records in the thread's lane a launch that the driver took. False: it must be recorded in the ring.
[[gnu::always_inline]] inline bool RecordInLane(RingWriter& ring, const Launch& launch,
                                                uint64_t start_ns, uint64_t call_ns) noexcept {
  LaneWriter& lane = ThreadLane(ring);
  LaneRecord* const record = lane.NextSlot();
  const StreamKey key = ResolveStream(launch.stream, launch.per_thread);
  const bool fits = ((launch.block[0] | launch.block[1] | launch.block[2]) >> 16) == 0 &&
                    (key.stream >> 32) == 0;
  if (record == nullptr || !fits) [[unlikely]] return false;
  record->call_start_ns = start_ns;
  record->context = key.context;
  record->call_ns = call_ns >> 32 == 0 ? static_cast<uint32_t>(call_ns) : UINT32_MAX;
  record->stream = static_cast<uint32_t>(key.stream);
  record->name_offset = KernelNameOf(launch.function);
  record->thread_id = ThreadId();
  for (int i = 0; i < 3; ++i) {
    record->grid[i] = launch.grid[i];
    record->block[i] = static_cast<uint16_t>(launch.block[i]);
  }
  record->shared_bytes = launch.shared_bytes;
  record->flags = static_cast<uint16_t>(launch.flags | key.flags);
  record->door = launch.door;
  lane.Publish();
  return true;
}

}  // namespace cupola::intercept
