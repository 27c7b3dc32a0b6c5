// DecisionTimes: a histogram of how long clients waited for the daemon's decisions. A wait lasts from the moment that a
// client says that it has work (BoardSlot::demand_since_ns) until the first review that has seen it is carried out. A
// GpuArbiter owns one, and uses it under its lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace cupola::sched {

class DecisionTimes {
 public:
  void Add(uint64_t ns) {
    ++counts_[BucketOf(ns)];
    ++total_;
  }
  uint64_t total() const { return total_; }

  /// The time in ns that `part` (0 to 1) of all waits took at most, rounded up by at most a quarter; 0 = there is no
  /// wait.
  uint64_t Percentile(double part) const {
    const auto wanted = static_cast<uint64_t>(part * static_cast<double>(total_));
    uint64_t seen = 0;
    for (uint32_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen > wanted || (seen == total_ && seen != 0)) return EndOf(i);
    }
    return 0;
  }

 private:
  // Four buckets for each power of two.
  static constexpr uint32_t kBuckets = 160;
  static uint32_t BucketOf(uint64_t ns) {
    if (ns < 4) return static_cast<uint32_t>(ns);
    const auto power = static_cast<uint32_t>(std::bit_width(ns)) - 1;
    return std::min<uint32_t>(4 * (power - 1) + static_cast<uint32_t>(ns >> (power - 2) & 3), kBuckets - 1);
  }
  static uint64_t EndOf(uint32_t bucket) {
    if (bucket < 4) return bucket;
    return uint64_t{5 + bucket % 4} << (bucket / 4 - 1);
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
};

}  // namespace cupola::sched
