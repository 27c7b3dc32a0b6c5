// The path of a recorded launch: count it, note its facts, pass it on, publish the record. No
// allocation, lock, system call, getenv or notice once a thread, kernel and stream have been seen
// before. Any thread. The call goes to the driver exactly as it came, whatever happens here.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batches.h"
#include "intercept/facts/streams.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/kernel_names.h"
#include "intercept/record/recorder.h"
#include "intercept/tasks/task_launch.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/task_streams.h"
#include "profiles/launch_record.h"

namespace cupola::intercept {

/// What a launch call says of itself.
struct LaunchFacts {
  const void* function = nullptr;  ///< CUfunction or CUkernel; null for a graph
  CUstream stream = nullptr;
  bool per_thread = false;         ///< the _ptsz form
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
  uint32_t shared_bytes = 0;
  CUgraphExec graph = nullptr;     ///< null for a kernel
  uint32_t kernel_nodes = 0;       ///< of a graph
  uint16_t flags = 0;              ///< LaunchFlag
  LaunchDoor door = LaunchDoor::kLaunchKernel;
};

/// What of a launch call its facts do not hold, where preemption or a profile may need it.
struct LaunchDetails {
  void** params = nullptr;
  void** extra = nullptr;
  const CUlaunchConfig* config = nullptr;
};

/// Fills `record` but for its times and sequence.
void Describe(const LaunchFacts& facts, bool captured, LaunchRecord* record) noexcept;

/// The record of a launch with its event pair; out of line, since it costs microseconds anyway.
CUresult LaunchTimed(RingWriter& ring, const LaunchFacts& facts, const LaunchDetails& details,
                     CUresult (*call)(void*), void* data);

/// The record, in the ring, of a launch that was made and did not go into a lane.
void RecordInRing(RingWriter& ring, const LaunchFacts& facts, bool captured, CUresult result,
                  uint64_t start_ns, uint64_t call_ns) noexcept;

/// Records a launch that the driver took in the lane of the thread. False: it is to go to the ring.
[[gnu::always_inline]] inline bool RecordInLane(RingWriter& ring, const LaunchFacts& facts,
                                                uint64_t start_ns, uint64_t call_ns) noexcept {
  LaneWriter& lane = ThreadLane(ring);
  LaneRecord* const record = lane.NextSlot();
  const StreamKey key = ResolveStream(facts.stream, facts.per_thread);
  const bool fits = ((facts.block[0] | facts.block[1] | facts.block[2]) >> 16) == 0 &&
                    (key.stream >> 32) == 0;
  if (record == nullptr || !fits) [[unlikely]] return false;
  record->call_start_ns = start_ns;
  record->context = key.context;
  record->call_ns = call_ns >> 32 == 0 ? static_cast<uint32_t>(call_ns) : UINT32_MAX;
  record->stream = static_cast<uint32_t>(key.stream);
  record->name_offset = KernelNameOf(facts.function);
  record->thread_id = ThreadId();
  for (int i = 0; i < 3; ++i) {
    record->grid[i] = facts.grid[i];
    record->block[i] = static_cast<uint16_t>(facts.block[i]);
  }
  record->shared_bytes = facts.shared_bytes;
  record->flags = static_cast<uint16_t>(facts.flags | key.flags);
  record->door = facts.door;
  lane.Publish();
  return true;
}

/// Makes the launch by `call()`, or as its preemptible variant (preempt/guarded_launch.h).
template <typename CallReal>
[[gnu::always_inline]] inline CUresult MakeKernel(const LaunchFacts& facts,
                                                  const LaunchDetails& details,
                                                  const CallReal& call) noexcept {
  if (!preempt::PreemptionOn()) [[likely]] return call();
  const preempt::LaunchCall as_made{
      .params = details.params, .extra = details.extra,
      .attributes = details.config != nullptr ? details.config->attrs : nullptr,
      .attribute_count = details.config != nullptr ? details.config->numAttrs : 0,
      .make = [](void* data) { return (*static_cast<const CallReal*>(data))(); },
      .data = const_cast<void*>(static_cast<const void*>(&call))};
  return preempt::LaunchUnderBoard(facts, as_made);
}

/// The same, or puts it into the TaskTable (tasks/task_launch.h), or holds it back (batches/batches.h).
template <typename CallReal>
[[gnu::always_inline]] inline CUresult MakeLaunch(const LaunchFacts& facts,
                                                  const LaunchDetails& details,
                                                  const CallReal& call) noexcept {
  if (!tasks::TasksOn()) [[likely]] return MakeKernel(facts, details, call);
  tasks::NoteOwnStream(facts.stream, facts.per_thread);
  const bool passes_by = tasks::PassesBy();
  CUresult result;
  if (!passes_by && tasks::TryTask(facts, details, &result)) return result;
  if (!batches::Offer(facts.function, facts.stream, facts, details, &result)) {
    result = batches::AfterPlain(facts, MakeKernel(facts, details, call));
  }
  if (!passes_by || !tasks::worth.IsQuiet()) {
    tasks::AfterPlainLaunch(facts.function, facts.stream, facts.per_thread, result);
  }
  return result;
}

/// Passes a launch on by `make_call()` and records it.
template <typename CallReal>
[[gnu::always_inline]] inline CUresult PassLaunch(const LaunchFacts& facts,
                                                  const LaunchDetails& details,
                                                  const CallReal& make_call) noexcept {
  if (InsideHook()) return make_call();
  const HookScope scope;
  RingWriter* const ring = ActiveRing();
  const auto call = [&] { return MakeLaunch(facts, details, make_call); };
  if (ring == nullptr) return call();
  const bool captured = IsCapturing(facts.stream, facts.per_thread);
  const TimingMode timing = timing_mode.load(std::memory_order_relaxed);
  if (timing == TimingMode::kEvents && !captured) [[unlikely]] {
    using MakeCall = decltype(call);
    return LaunchTimed(
        *ring, facts, details, [](void* data) { return (*static_cast<MakeCall*>(data))(); },
        const_cast<void*>(static_cast<const void*>(&call)));
  }
  const uint64_t start_ns = NowNs();
  const CUresult result = call();
  const uint64_t call_ns = timing == TimingMode::kNone ? 0 : NowNs() - start_ns;
  const bool plain = result == CUDA_SUCCESS && !captured && facts.door != LaunchDoor::kLaunchGraph;
  if (!plain || !RecordInLane(*ring, facts, start_ns, call_ns)) [[unlikely]] {
    RecordInRing(*ring, facts, captured, result, start_ns, call_ns);
  }
  return result;
}

}  // namespace cupola::intercept
