// QueuedWork: counts the entries on the streams of a context that may still be held there by
// guards. A thread that would fill a stream waits before it does (KeepRoom; design:
// docs/preemption.md, "Waiting"). Part of LaunchContext.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept {

/// Counts entries of all streams of a context together. A thread that has seen that nothing holds
/// the entries calls MarkGone for those that were there before it looked: other threads may have
/// added more meanwhile, or may have marked as many already. Any thread; never waits.
class QueuedWork {
 public:
  void Add(uint32_t entries) noexcept { total_.fetch_add(entries, std::memory_order_relaxed); }

  /// The number of entries that were ever added. Read it before looking for what may hold them.
  uint64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

  /// Records that nothing holds the first `total` entries.
  void MarkGone(uint64_t total) noexcept {
    uint64_t gone = gone_.load(std::memory_order_relaxed);
    while (gone < total && !gone_.compare_exchange_weak(gone, total, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
    }
  }

  /// An upper bound of the entries that may still be held.
  uint64_t left() const noexcept {
    // gone_ is read first, with acquire: the thread that stored it had read at least that value
    // from total_, so that the difference is never negative.
    const uint64_t gone = gone_.load(std::memory_order_acquire);
    return total_.load(std::memory_order_relaxed) - gone;
  }

 private:
  std::atomic<uint64_t> total_{0};  ///< entries that were ever added
  std::atomic<uint64_t> gone_{0};   ///< of these, the first ones, which nothing holds
};

}  // namespace cupola::intercept
