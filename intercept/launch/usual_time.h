// UsualTime: the time that something usually takes, learned from measurements of which some are far
// too long, because a stop waited for its time slice or a thread was not woken. GpuBoard owns two,
// for stops and for resumes. No CUDA call. Any thread; if two threads write at the same time, one
// of the two measurements may be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cupola::intercept {

class UsualTime {
 public:
  /// The usual time in nanoseconds; 0 before the first measurement.
  uint64_t ns() const noexcept { return ns_.load(std::memory_order_relaxed); }

  /// Takes in a measurement: a shorter time at once, a longer one by degrees.
  void Learn(uint64_t ns) noexcept {
    constexpr uint64_t kLeastStepNs = 10'000;
    const uint64_t before = this->ns();
    const bool is_believed = before == 0 || ns <= before;
    Set(is_believed ? ns : before + std::min(ns - before, std::max(before / 8, kLeastStepNs)));
  }

  /// Lowers a long time (over 1 ms) by a sixteenth. Without this a single bad measurement could
  /// stay for good: others no longer ask a process to yield when that takes long, so nothing better
  /// would be measured.
  void Doubt() noexcept {
    constexpr uint64_t kDoubtfulNs = 1'000'000;
    const uint64_t before = ns();
    if (before > kDoubtfulNs) Set(before - before / 16);
  }

 private:
  void Set(uint64_t ns) noexcept { ns_.store(ns, std::memory_order_relaxed); }

  std::atomic<uint64_t> ns_{0};
};

}  // namespace cupola::intercept
