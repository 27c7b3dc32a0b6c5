// Device times of launches, by an event pair around each (CUPOLA_TIMING=events). Pairs come from a
// pool per context, made at the context's first launch; an agent thread harvests them in relaxed
// capture mode, maps them to the host's clock and publishes them after the launch. Off unless asked
// for, off under profilers and debuggers, and never while a capture is open. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "profiles/launch_record.h"

namespace cupola::intercept {

class EventPool;
struct EventPair;

/// A launch under way between its two events. Null `pair`: not timed.
struct TimedLaunch {
  EventPool* pool = nullptr;
  EventPair* pair = nullptr;
};

/// What is measured of a launch besides when it was called.
enum class TimingMode : uint8_t {
  kNone,
  kCalls,   ///< the host's time in the driver's call: a second reading of the clock
  kEvents,  ///< that, and the device's times by events
};
extern std::atomic<TimingMode> timing_mode;

/// Reads CUPOLA_TIMING; called once when recording starts.
void StartTiming() noexcept;

/// Records the first event on the launch's stream. The launch goes untimed when the pool is empty,
/// a capture is open, or the driver refuses.
TimedLaunch BeginTimed(uint64_t context, CUstream stream, bool per_thread) noexcept;

/// Records the second event after the launch gave `result`. True: the caller publishes the launch
/// with kFlagTimesFollow, then calls SubmitTimed. False: it goes untimed.
bool EndTimed(const TimedLaunch& launch, CUstream stream, bool per_thread,
              CUresult result) noexcept;

/// The launch stands in the ring under `*ticket`: the agent will publish its times. Null: the ring
/// was full, so nobody wants them.
void SubmitTimed(const TimedLaunch& launch, const uint64_t* ticket) noexcept;

/// The context is about to go: harvests what is ready within a bound, gives up the rest.
void FlushTimingOf(CUcontext context) noexcept;

/// The context did not go after all (a primary context with other users).
void ResumeTimingOf(CUcontext context) noexcept;

/// At exit: like FlushTimingOf for every context.
void FlushTimingAtExit() noexcept;

void ResetTimingAfterFork() noexcept;

}  // namespace cupola::intercept
