// Launches in batches: where launches of one stream follow each other so closely that the GPU waits for the
// host, they are held back for some microseconds and go to the driver as one graph of kernels. A *row* is a
// sequence of launches into one stream with no other call of the program between them (batch_row.h); the
// process holds launches of one row at a time. Called by the launch hooks and by calls/; any thread. On where
// launches may become tasks and preemption is off. If the driver refuses a graph, its launches go out one by
// one and no more are held. docs/launches-in-batches.md.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batch_row.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {
struct Launch;
}  // namespace cupola::intercept

namespace cupola::intercept::batches {

/// What happens to launches now. The order matters: from kStarting on, calls end rows (EndRow).
enum class State : uint8_t {
  kOff,
  kSampling,  ///< launches are counted, and timed now and then
  kStarting,  ///< launches follow closely enough: the next one that the driver takes begins batches
  kActive,    ///< launches may be held back
  kFailed,    ///< no more are held back; the next plain launch tells the program if a held one failed,
              ///< and makes the state kOff
};

namespace internal {
extern std::atomic<State> state;
extern std::atomic<uint32_t> held;  // launches that are held back now
bool OfferLaunch(const Launch& launch, CUresult* result) noexcept;
CUresult AfterPlain(const Launch& launch, CUresult result) noexcept;
void EndRow() noexcept;
}  // namespace internal

/// Whether batches are on, which StartBatches decides. Costs one load.
inline bool BatchesOn() noexcept {
  return internal::state.load(std::memory_order_relaxed) != State::kOff;
}

/// Offers a launch of the program that would be a plain launch. True: it is held back, and `*result` is what
/// the program is to be told: success, or the error of a launch that was held before. False: the caller is to
/// make the launch, and then call AfterPlain; those that were held before it have been made. While launches are
/// only counted it costs a few instructions. Any thread; may wait as a launch may.
[[gnu::always_inline]] inline bool Offer(const void* function, CUstream stream, const Launch& launch, CUresult* result) noexcept {
  const State state = internal::state.load(std::memory_order_relaxed);
  if (state == State::kOff) return false;
  if (state == State::kSampling) {
    ThreadState& mine = this_thread;
    if (mine.batch_stream == stream && function != nullptr &&
        ++mine.batch_sampled % BatchWorth::kSampleLaunches != 0) {
      return false;
    }
  }
  return internal::OfferLaunch(launch, result);
}

/// Called after a launch that was not held was made, with the result `made`. Returns what the program is to
/// be told: `made`, or the error of a launch that was held before.
[[gnu::always_inline]] inline CUresult AfterPlain(const Launch& launch, CUresult made) noexcept {
  const State state = internal::state.load(std::memory_order_relaxed);
  if (state <= State::kSampling) [[likely]] return made;
  return internal::AfterPlain(launch, made);
}

/// Called before anything that may look at what a stream has been given, or add to it: makes the launches
/// that are held back, of all threads, and has the next launch begin a new row. Waits for a thread that is
/// making them.
inline void EndRow() noexcept {
  if (internal::state.load(std::memory_order_relaxed) >= State::kStarting) internal::EndRow();
}

/// What a call of the program ends. calls/calls.def says which call ends what.
enum class BatchRule : uint8_t {
  kRow,      ///< the row only
  kStream,   ///< also what is known of the row's stream, such as its priority
  kKernels,  ///< also what is known of stream and kernels, and the graphs made of them
};

/// Called before a call of the program that may wait or is ordered in a stream: EndRow, and what else the call
/// ends.
void BeforeCall(BatchRule ends) noexcept;

/// Reads the environment: CUPOLA_BATCHES=auto (default), always (every launch that can be held is held, from
/// the first one on) or off. Called after tasks::StartTasks.
void StartBatches() noexcept;

/// Called in the child after a fork: no launch of the child is held.
void ForgetBatchesAfterFork() noexcept;

}  // namespace cupola::intercept::batches
