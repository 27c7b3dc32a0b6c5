// The process's recording of launches: whether there is one, and the ring writer if CUPOLA_RECORDS names a folder.
// Thread-safe; nothing happens before the first call.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/process/first_call.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/ring_writer.h"

namespace cupola::intercept {

/// The entries of the launch hooks look at it (generate/stubs.py).
enum class RecordingState : uint8_t {
  kNotStarted = 0,
  kOn = 1,
  kOff = 2,
  kOffButWatched = 3,  ///< not recorded, but preemption or tasks look at each launch
};
extern std::atomic<RecordingState> recording_state __asm__("cupola_recording_state")
    __attribute__((visibility("hidden")));
extern RingWriter ring_writer;

/// Opens the files that CUPOLA_RECORDS, CUPOLA_TIMING and CUPOLA_FEATURES ask for: kOn, or kOff. Of the process's
/// start (entry/start.cpp), which then sets recording_state.
RecordingState OpenRecords() noexcept;

/// Says what was recorded and lost; from exit().
void SayRecordsAtExit() noexcept;

void ForgetRecordsAfterFork() noexcept;

/// The ring, or null when nothing is recorded. On the launch path: one load.
inline RingWriter* ActiveRing() noexcept {
  const RecordingState state = recording_state.load(std::memory_order_acquire);
  if (state == RecordingState::kOn) [[likely]] return &ring_writer;
  if (state != RecordingState::kNotStarted) return nullptr;
  StartProcess();
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kOn ? &ring_writer : nullptr;
}

/// True when launches are not recorded, and that is known: a hook then has nothing to do and leaves
/// by a jump. Between a program's launches all of Cupola falls out of the processor's caches, and
/// what a launch costs is mostly how many lines of code and data it asks for again
/// (docs/interception.md).
inline bool NothingRecorded() noexcept {
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kOff;
}

/// True when a hook besides those of launches has something to do: outermost on this thread, and
/// launches are recorded or looked at.
inline bool Watching() noexcept {
  return !InsideHook() && (ActiveRing() != nullptr || recording_state.load(std::memory_order_relaxed) ==
                                                          RecordingState::kOffButWatched);
}

/// Puts a finished record into the ring; its ticket goes to `ticket`. False when the ring is full:
/// it is dropped, and counted unless it is one of device times. Lock-free.
bool PublishRecord(RingWriter& ring, const LaunchRecord& record, uint64_t* ticket) noexcept;

/// The lane of the calling thread; the first call of a thread takes one, lock-free.
LaneWriter& ThreadLane(RingWriter& ring) noexcept;

}  // namespace cupola::intercept
