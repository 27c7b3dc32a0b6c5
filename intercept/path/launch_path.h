// The launch path: the steps that every launch call takes through Cupola. The first step stands last in this file.
//
//   LaunchKnown         makes a launch as the last ones of its kind went out, if that is known (launch/known_launch.h)
//   PassLaunch          records the launch (path/record_launch.h), if records are wanted
//   MakeLaunch          makes it a task (tasks/task_launch.h), or holds it back in a batch (batches/batches.h)
//   MakeKernel          passes it to LaunchUnderArbiter in a process that takes part in preemption, else to the driver
//   LaunchUnderArbiter  makes it as a preemptible, sliced, or plain launch behind gates (launch_path.cpp)
//
// Each step is given the program's own call as a function object, and gives it on to the next step if the launch is
// still to be made. A process that records its launches makes no tasks and no batches (entry/start.cpp), so that its
// launches can be measured.
//
// The hooks of launch calls call PassLaunch, from any thread. There is no allocation, lock, system call, getenv or log
// message once a thread, kernel and stream have been seen before. If no step applies, the call goes to the driver
// exactly as the program made it.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batches.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/known_launch.h"
#include "intercept/launch/launch.h"
#include "intercept/path/record_launch.h"
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

/// The last step in a process that takes part in preemption (launch_path.cpp): tells the board of the launch's demand,
/// then makes the launch preemptible, sliced, or plain behind gates. Returns what the driver returned. May wait in our
/// code.
CUresult LaunchUnderArbiter(const Launch& launch, const ProgramCall& call) noexcept;

/// The first step in such a process: makes a launch that is known to go out preemptible (launch/known_launch.h), and
/// sets `*result` to what the driver returned. False: nothing was done.
bool LaunchKnown(const Launch& launch, const ProgramCall& call, CUresult* result) noexcept;

/// Makes the launch in place of MakeLaunch in a process that writes a report at its end, and counts in which way it went
/// out, and why in no better one (path/report_launch.cpp). Each launch is looked at anew: none passes by, none is known.
CUresult LaunchReported(const Launch& launch, const ProgramCall& call) noexcept;

/// The program's own call as a ProgramCall, for as long as `call` lives.
template <typename CallReal>
[[gnu::always_inline]] inline ProgramCall AsProgramCall(const CallReal& call) noexcept {
  return {.make = [](void* data) { return (*static_cast<const CallReal*>(data))(); },
          .data = const_cast<void*>(static_cast<const void*>(&call))};
}

/// Makes the launch by `call()`, or by LaunchUnderArbiter if the process takes part in preemption.
template <typename CallReal>
[[gnu::always_inline]] inline CUresult MakeKernel(const Launch& launch,
                                                  const CallReal& call) noexcept {
  if (!PreemptionOn()) [[likely]] return call();
  return LaunchUnderArbiter(launch, AsProgramCall(call));
}

/// Puts the launch into the TaskTable (tasks/task_launch.h), or holds it back (batches/batches.h), or makes it by
/// MakeKernel. While tasks do not pay, most launches pass by: no work on tasks is done for them (tasks::PassesBy).
/// AfterPlainLaunch is skipped for these, unless another thread has found meanwhile that tasks may be made again.
template <typename CallReal>
[[gnu::always_inline]] inline CUresult MakeLaunch(const Launch& launch,
                                                  const CallReal& call) noexcept {
  if (!TasksOn()) [[likely]] return MakeKernel(launch, call);
  tasks::CountIfOwnStream(launch.stream, launch.per_thread);
  const bool passes_by = tasks::PassesBy();
  CUresult result;
  if (!passes_by && tasks::TryTask(launch, &result) == Reason::kNone) return result;
  if (!batches::Offer(launch.function, launch.stream, launch, &result)) {
    result = batches::AfterPlain(launch, MakeKernel(launch, call));
  }
  if (!passes_by || !tasks::worth.IsQuiet()) {
    tasks::AfterPlainLaunch(launch.function, launch.stream, launch.per_thread, result);
  }
  return result;
}

/// Makes a launch, by default by `make_call()`, which is the program's own call, and records it. Returns what the
/// driver returned. A launch call that the driver makes inside another call of the program only goes to the driver. The
/// record goes into the thread's lane if it can, since that is the cheapest; a lane holds only launches of kernels that
/// the driver took and that no capture took.
template <typename CallReal>
[[gnu::always_inline]] inline CUresult PassLaunch(const Launch& launch,
                                                  const CallReal& make_call) noexcept {
  if (InsideHook()) return make_call();
  const HookScope scope;
  CUresult known;
  if (MayBeKnown(launch) && LaunchKnown(launch, AsProgramCall(make_call), &known)) return known;
  RingWriter* const ring = ActiveRing();
  const auto call = [&] { return MakeLaunch(launch, make_call); };
  if (ring == nullptr) {
    if (IsReported()) [[unlikely]] return LaunchReported(launch, AsProgramCall(make_call));
    return call();
  }
  const bool captured = IsCapturing(launch.stream, launch.per_thread);
  const TimingMode timing = timing_mode.load(std::memory_order_relaxed);
  if (timing == TimingMode::kEvents && !captured) [[unlikely]] {
    using MakeCall = decltype(call);
    return LaunchTimed(
        *ring, launch, [](void* data) { return (*static_cast<MakeCall*>(data))(); },
        const_cast<void*>(static_cast<const void*>(&call)));
  }
  const uint64_t start_ns = NowNs();
  const CUresult result = call();
  const uint64_t call_ns = timing == TimingMode::kNone ? 0 : NowNs() - start_ns;
  const bool plain = result == CUDA_SUCCESS && !captured && launch.door != LaunchDoor::kLaunchGraph;
  if (!plain || !RecordInLane(*ring, launch, start_ns, call_ns)) [[unlikely]] {
    RecordInRing(*ring, launch, captured, result, start_ns, call_ns);
  }
  return result;
}

}  // namespace cupola::intercept
