// Device times of launches, measured by a pair of events around each launch (CUPOLA_TIMING=events).
// Pairs come from a pool for each context, made at the context's first launch. A thread of Cupola's
// own harvests the pools: in relaxed capture mode it asks which launches have ended, converts their
// times to the host's clock, and publishes them after the records of the launches. Pools of green
// contexts are harvested by the threads that launch there instead. Timing is off unless asked for,
// off under profilers and debuggers, and never active while a capture is open. LaunchTimed
// (path/record_launch.h) and the hooks that end contexts call these functions. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "profiles/launch_record.h"

namespace cupola::intercept {

class EventPool;
struct EventPair;

/// A launch under way between its two events. If `pair` is null the launch is not timed. Otherwise `pair`
/// is `pool`'s, and this launch uses it until EndTimed returns false or SubmitTimed is called.
struct TimedLaunch {
  EventPool* pool = nullptr;
  EventPair* pair = nullptr;
};

/// What is measured of a launch besides when it was called.
enum class TimingMode : uint8_t {
  kNone,
  kCalls,   ///< the host's time in the driver's call: a second reading of the clock
  kEvents,  ///< the same, and the device's times by events
};
extern std::atomic<TimingMode> timing_mode;

/// Reads CUPOLA_TIMING; called once when recording starts.
void StartTiming() noexcept;

/// In place of StartTiming: launches are timed by events, and their lengths go to `sink`, which is called on any thread, one
/// call at a time. `waits_at_end`: the ends of contexts and of the process wait for timed launches; each is wanted. Else a
/// few at a time are timed. False: they are not, since a profiler or debugger is at work.
bool StartTimingFor(void (*sink)(uint64_t ticket, uint64_t ns) noexcept, bool waits_at_end) noexcept;

/// Records the first event on the launch's stream. The launch goes untimed when the pool is empty,
/// a capture is open, or the driver refuses.
TimedLaunch BeginTimed(uint64_t context, CUstream stream, bool per_thread) noexcept;

/// Records the second event, after the launch call returned `result`. True: the caller publishes
/// the record of the launch with kFlagTimesFollow, then calls SubmitTimed. False: the launch is
/// untimed, because it was not timed from the start, failed, or a capture is open by now.
bool EndTimed(const TimedLaunch& launch, CUstream stream, bool per_thread,
              CUresult result) noexcept;

/// The record of the launch is in the ring under `*ticket`: the harvest will publish the launch's
/// times as a record of their own, which names that ticket. Null: the ring was full, and the times
/// are dropped.
void SubmitTimed(const TimedLaunch& launch, const uint64_t* ticket) noexcept;

/// The context may be about to end: waits for its launches for at most 0.5 s and publishes the times of
/// those that have ended; the others stay untimed. From here on the context's launches go untimed, until
/// ResumeTimingOf or ForgetTimingOf is called.
void FlushTimingOf(CUcontext context) noexcept;

/// The same for a context that certainly ends. The pool's events and its stream are destroyed, so that nothing of
/// Cupola's stays in the driver when a green context ends and its primary context lives on.
void EndTimingOf(CUcontext context) noexcept;

/// After FlushTimingOf: the context did not end after all (a primary context with other users). Its pool is used again.
void ResumeTimingOf(CUcontext context) noexcept;

/// After FlushTimingOf: the context has ended. Its pool is not used again, and another context may have its handle.
void ForgetTimingOf(CUcontext context) noexcept;

/// At exit: does the same as FlushTimingOf for every context, except green contexts that are not current on the calling
/// thread. From here on no launch is timed on the device. A second call does nothing.
void FlushTimingAtExit() noexcept;

/// In the child after a fork.
void ResetTimingAfterFork() noexcept;

}  // namespace cupola::intercept
