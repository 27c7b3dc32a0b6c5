// What a launch takes, as far as demand shows it: from its begin to its end, by the launches
// between.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// One writer at a time, any number of readers.
class TimePerLaunch {
 public:
  /// Demand was there from `begun_ns` to `ended_ns` for so many launches, one or more. An upper
  /// bound of what each took, since the host's time between them is in it. Who ends demand may have
  /// looked at the clock before it began anew: that says nothing.
  void Note(uint64_t begun_ns, uint64_t ended_ns, uint64_t launches) noexcept {
    if (ended_ns < begun_ns) return;
    const uint64_t ns = (ended_ns - begun_ns) / launches;
    const uint64_t before = mean_ns_.load(std::memory_order_relaxed);
    mean_ns_.store(before == 0 ? ns : (3 * before + ns) / 4, std::memory_order_relaxed);
  }

  /// Of late; 0 = unknown.
  uint64_t ns() const noexcept { return mean_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> mean_ns_{0};
};

}  // namespace cupola::intercept::preempt
