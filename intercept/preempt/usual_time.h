// UsualTime: what something takes, learned from measurements of which some are far too long, a stop
// that waited for its time slice or a thread that was not woken. No CUDA call. Any thread; two that
// write at the same time may lose one of the two.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

class UsualTime {
 public:
  /// 0 before the first measurement.
  uint64_t ns() const noexcept { return ns_.load(std::memory_order_relaxed); }

  /// A shorter time is believed at once, a longer one by degrees.
  void Learn(uint64_t ns) noexcept {
    constexpr uint64_t kLeastStepNs = 10'000;
    const uint64_t before = this->ns();
    const bool is_believed = before == 0 || ns <= before;
    Set(is_believed ? ns : before + std::min(ns - before, std::max(before / 8, kLeastStepNs)));
  }

  /// Doubts what is so long that nothing better would be measured: who is asked to do what takes
  /// long is asked no more.
  void Doubt() noexcept {
    constexpr uint64_t kDoubtfulNs = 1'000'000;
    const uint64_t before = ns();
    if (before > kDoubtfulNs) Set(before - before / 16);
  }

 private:
  void Set(uint64_t ns) noexcept { ns_.store(ns, std::memory_order_relaxed); }

  std::atomic<uint64_t> ns_{0};
};

}  // namespace cupola::intercept::preempt
