// RealTimeBudget: how much of one processor the daemon's deciding threads, all of them together, may take at a
// real-time priority: half. Clients decide how often the daemon is woken, and one that rings without a pause would else
// take a processor from everybody else. A thread that is above the budget rests; it keeps its class. Lock-free; any
// thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cupola::sched {

class RealTimeBudget {
 public:
  /// A thread worked for `spent_ns` until `now_ns`. Returns for how long it is to rest now, 0 = not at all: what was
  /// spent in the last kBurstNs may be spent in one go.
  uint64_t Spend(uint64_t spent_ns, uint64_t now_ns) {
    // paid_until_ns_ is the time by which half a processor would have done all the work so far (the "theoretical
    // arrival time" of the generic cell rate algorithm, ITU-T I.371). It never lies more than kBurstNs in the past.
    uint64_t before = paid_until_ns_.load(std::memory_order_relaxed);
    uint64_t after = 0;
    do {
      const uint64_t earliest = now_ns > kBurstNs ? now_ns - kBurstNs : 0;
      after = std::max(before, earliest) + kCostOfWork * spent_ns;
    } while (!paid_until_ns_.compare_exchange_weak(before, after, std::memory_order_relaxed));
    return after > now_ns ? after - now_ns : 0;
  }

 private:
  static constexpr uint64_t kCostOfWork = 2;  ///< of time for each of work: half a processor
  static constexpr uint64_t kBurstNs = 20'000'000;

  std::atomic<uint64_t> paid_until_ns_{0};
};

}  // namespace cupola::sched
