// TimePerLaunch: the mean time of a launch on one GPU, estimated from demand: the length of a burst
// divided by the number of its launches. Part of DemandState (demand.h): who ends demand adds the burst, and
// gates.cpp reads the mean to tell how many launches may come between two gates. Times are of
// CLOCK_MONOTONIC.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept {

/// One writer at a time, any number of readers.
class TimePerLaunch {
 public:
  /// Adds a burst that lasted from `begun_ns` to `ended_ns` and had `launches` launches, one or
  /// more. The quotient is an upper bound, since it includes the host's time between launches. A
  /// burst with ended_ns < begun_ns is ignored: the thread that ended demand read the clock before
  /// another thread began it anew.
  void Note(uint64_t begun_ns, uint64_t ended_ns, uint64_t launches) noexcept {
    if (ended_ns < begun_ns) return;
    const uint64_t ns = (ended_ns - begun_ns) / launches;
    const uint64_t before = mean_ns_.load(std::memory_order_relaxed);
    mean_ns_.store(before == 0 ? ns : (3 * before + ns) / 4, std::memory_order_relaxed);
  }

  /// The moving mean in nanoseconds; 0 = unknown.
  uint64_t ns() const noexcept { return mean_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> mean_ns_{0};
};

}  // namespace cupola::intercept
