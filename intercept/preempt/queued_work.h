// QueuedWork: how much of what was put on the streams of a context may be held there, so that who
// would fill a stream waits before it does (design: docs/preemption.md, "Waiting").
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// Counts entries of all streams of a context. Who has seen that nothing holds those that were
/// there says so of those alone, for others may have put more meanwhile, and may have said as much
/// already. Any thread; never waits.
class QueuedWork {
 public:
  void Add(uint32_t entries) noexcept { total_.fetch_add(entries, std::memory_order_relaxed); }

  /// All that was ever put: to be taken before it is looked for what may hold it.
  uint64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

  /// Nothing holds the first `total` entries.
  void NoteGone(uint64_t total) noexcept {
    uint64_t gone = gone_.load(std::memory_order_relaxed);
    while (gone < total && !gone_.compare_exchange_weak(gone, total, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
    }
  }

  /// At most so many are in the streams behind something that may hold them.
  uint64_t left() const noexcept {
    // In this order: who noted `gone` had read at least that of `total_`.
    const uint64_t gone = gone_.load(std::memory_order_acquire);
    return total_.load(std::memory_order_relaxed) - gone;
  }

 private:
  std::atomic<uint64_t> total_{0}, gone_{0};
};

}  // namespace cupola::intercept::preempt
