// Launches in batches: where launches of one stream follow each other so closely that the host is what they
// wait for, they are held back for some microseconds and go to the driver as one graph of kernels.
// docs/launches-in-batches.md. On where launches may become tasks, and not under an arbiter.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batch_row.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {
struct LaunchFacts;
struct LaunchDetails;
}  // namespace cupola::intercept

namespace cupola::intercept::batches {

enum class State : uint8_t {
  kOff,
  kSampling,  ///< launches are counted, and timed now and then
  kStarting,  ///< they are close enough: the next one that the driver takes begins batches
  kActive,    ///< they may be held
  kFailed,    ///< no more will be; the next launch that is made tells how a held one went
};

namespace internal {
extern std::atomic<State> state;
extern std::atomic<uint32_t> held;
extern std::atomic<bool> is_measuring;
bool OfferLaunch(const LaunchFacts& facts, const LaunchDetails& details, CUresult* result) noexcept;
CUresult AfterPlain(const LaunchFacts& facts, CUresult result) noexcept;
void EndRow() noexcept;
}  // namespace internal

/// One load. Settled when the driver is opened.
inline bool BatchesOn() noexcept {
  return internal::state.load(std::memory_order_relaxed) != State::kOff;
}

/// Batches have begun, and how fast they are is not known yet: what else may be made of launches is to wait.
inline bool IsMeasuring() noexcept { return internal::is_measuring.load(std::memory_order_relaxed); }

/// A launch of the program, behind everything else that it might have become. True: it is held back, and
/// *result is what the program is to be told. False: it is to be made; what was held before it has been.
/// While launches are only counted, a few instructions. Any thread; may wait as a launch may.
[[gnu::always_inline]] inline bool Offer(const void* function, CUstream stream, const LaunchFacts& facts,
                                         const LaunchDetails& details, CUresult* result) noexcept {
  const State state = internal::state.load(std::memory_order_relaxed);
  if (state == State::kOff) return false;
  if (state == State::kSampling) {
    ThreadState& mine = this_thread;
    if (mine.batch_stream == stream && function != nullptr &&
        ++mine.batch_sampled % BatchWorth::kSampleLaunches != 0) {
      return false;
    }
  }
  return internal::OfferLaunch(facts, details, result);
}

/// A launch that was not held has been made, with `made`. What the program is to be told: that, or how a
/// launch went that was held before.
[[gnu::always_inline]] inline CUresult AfterPlain(const LaunchFacts& facts, CUresult made) noexcept {
  const State state = internal::state.load(std::memory_order_relaxed);
  if (state <= State::kSampling) [[likely]] return made;
  return internal::AfterPlain(facts, made);
}

/// Before anything that may look at what a stream has been given, or add to it: makes the launches that are
/// held, of all threads. Waits for a thread that is making them.
inline void EndRow() noexcept {
  if (internal::state.load(std::memory_order_relaxed) >= State::kStarting) internal::EndRow();
}

/// The same for a call of the program, kCallNames[index]. Some calls also end what is known of kernels.
void BeforeCall(size_t index) noexcept;

/// Reads the environment: CUPOLA_BATCHES=auto (default), always (all that can be held is, from the first
/// launch on) or off. Behind tasks::StartTasks.
void StartBatches() noexcept;

/// In the child of a fork no launch is held.
void ForgetBatchesAfterFork() noexcept;

}  // namespace cupola::intercept::batches
