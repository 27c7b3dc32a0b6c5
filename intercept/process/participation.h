// Which parts of Cupola are on in this process, besides recording: preemption under an arbiter, and launches as tasks.
// That is decided when the driver is opened (entry/start.cpp). Every hook asks here, from any thread; each question is
// one load.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept {

enum class Participation : uint8_t {
  kUndecided,
  kOff,  ///< there is no arbiter, or CUPOLA_PREEMPT=off
  kOn,
};

/// Whether this process takes part in preemption. Set once by preempt::StartPreemption.
extern std::atomic<Participation> participation;
inline bool PreemptionOn() noexcept {
  return participation.load(std::memory_order_relaxed) == Participation::kOn;
}

/// Whether launches may become tasks. Set by tasks::StartTasks; cleared in a forked child of a process with a
/// MasterKernel.
extern std::atomic<bool> makes_tasks;
inline bool TasksOn() noexcept { return makes_tasks.load(std::memory_order_relaxed); }

/// Not 0 while calls that may wait must go through calls/. The lower bits are a count: of the guarded launches that are
/// outstanding, of the streams that the program holds (preempt/host_holds.h), and of other reasons to watch such calls.
/// The upper bits are defined below. The generated stubs read this word (entry/generate/stubs.py); the stubs of most
/// stream-ordered calls look at the count alone.
extern std::atomic<uint32_t> watched __asm__("cupola_watched") __attribute__((visibility("hidden")));

/// The process takes part in preemption. Then a call that may wait must be watched even if nothing is outstanding,
/// because another thread may make a guarded launch while the call is in the driver.
inline constexpr uint32_t kTakesPartBit = 1u << 30;

/// Raised whenever something changes on which it depends how a launch goes out: streams, contexts and modules come and go,
/// a capture begins, a stream is held, a tool comes. Whatever was found out about launches or streams while it had another
/// value does not hold any more. Sequentially consistent: who raises it has made its change before.
extern std::atomic<uint64_t> launch_epoch;
inline void RaiseLaunchEpoch() noexcept { launch_epoch.fetch_add(1); }

/// Raise and lower the count.
inline void Watch(uint32_t launches) noexcept { watched.fetch_add(launches); }
inline void Unwatch(uint32_t launches) noexcept { watched.fetch_sub(launches); }

}  // namespace cupola::intercept
