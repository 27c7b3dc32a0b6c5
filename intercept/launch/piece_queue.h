// PieceQueue: the pieces of graphs that are on their way to the GPU (graphs/pieces.h). The driver takes only some hundred of
// them behind a closed gate before a launch waits inside it. So a launch of a graph whose pieces do not all fit is *deferred*:
// the program's stream waits for a word, its call returns, and a thread of ours, the feeder (path/graph_feeder.h), puts the
// pieces into a stream of ours as there is room; behind the last one that stream writes the word. Until all pieces of a
// deferred launch are in the driver's queue, the work behind it needs driver calls of ours. So a deferred launch counts as
// outstanding (LaunchContext::outstanding), and whoever makes a call that may wait in the driver waits for it first
// (preempt/waiting.h).
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/process/patient_wait.h"

namespace cupola::intercept {
struct LaunchContext;

/// The pieces of one context.
struct PieceQueue {
  /// Mapped memory with two words that streams write to: how many pieces have ended, and how many deferred launches. Kept for
  /// the next context.
  void* words = nullptr;
  std::atomic<CUdeviceptr> words_device{0};  ///< 0 = they are not registered with the context
  std::atomic<uint32_t> given{0};            ///< pieces that were put into streams, ever
  std::atomic<uint64_t> last_launch{0};      ///< DemandState::plain_launches when a graph last went in pieces
  std::atomic<uint64_t> stream{0};           ///< id of the program's stream whose launch had the last one
  std::atomic<uint64_t> longest_ns{0};       ///< expected time of the longest piece of the last graph; 0 = not known
  std::atomic<uint64_t> mean_rest_ns{0};     ///< of the last graph, until a piece under way has ended, on average; 0 = not known

  /// The stream that pieces of deferred launches are put into, and events for its waits, each of one deferred launch. Made by
  /// the builder before `words_device` is set; null: no launch is deferred, since there was no hardware queue left.
  CUstream feed_stream = nullptr;
  static constexpr uint32_t kMostDeferred = 64;
  CUevent events[kMostDeferred] = {};
  std::atomic<uint64_t> free_events{0};      ///< bit i: events[i] is not in use
  std::atomic<uint32_t> deferred{0};         ///< launches that were deferred, ever
  std::atomic<uint32_t> fed{0};              ///< of these, the first ones, of which nothing is left to be put into a stream
  /// Up to this one of them a blocking stream may be behind them, as LaunchContext::joined says of guarded launches.
  std::atomic<uint32_t> joined{0};
  std::atomic<uint64_t> pending_ns{0};       ///< what those that are not fed yet are expected to take
  std::atomic<uint32_t> promised{0};         ///< pieces that were put into streams or will be: `given` comes to be as many

  /// How many pieces are not known to have ended, of those that were put into streams.
  uint32_t left() const noexcept { return given.load() - ended(); }
  /// How many deferred launches the feeder still has to do with.
  uint32_t pending() const noexcept { return deferred.load() - fed.load(); }
  uint32_t ended() const noexcept {
    if (words_device.load(std::memory_order_acquire) == 0) return given.load();
    return __atomic_load_n(static_cast<const uint32_t*>(words), __ATOMIC_ACQUIRE);
  }
  CUdeviceptr ended_word() const noexcept { return words_device.load(); }
  CUdeviceptr deferred_word() const noexcept { return words_device.load() + sizeof(uint32_t); }
};

/// A wait for something of a context's pieces to change. It belongs to the waiting thread, which makes no driver call.
class PieceWait {
 public:
  explicit PieceWait(const LaunchContext& context) noexcept : context_(context) {}

  /// Returns after a moment. False: nothing has gone on for CUPOLA_WAIT_LIMIT_MS although nobody holds the process: perhaps
  /// the pieces wait for what the program does next.
  bool Pause() noexcept;

 private:
  const LaunchContext& context_;
  PatientWait patience_;
  uint64_t seen_ = 0;
  uint64_t since_ns_ = 0;  ///< since when there was no change, without times of being held
};

/// Waits until the first `number` deferred launches are fed; what is fed already is not waited for. Ends where the context has
/// ended. False: the wait was given up, for the reason that PieceWait::Pause gives.
bool AwaitFed(const LaunchContext& context, uint32_t number) noexcept;
/// The same for all launches that were deferred so far.
bool AwaitFed(const LaunchContext& context) noexcept;

}  // namespace cupola::intercept
