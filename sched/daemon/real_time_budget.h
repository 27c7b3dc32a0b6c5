// RealTimeBudget: how much of one processor the daemon's deciding threads, all of them together, may take at a
// real-time priority: half. Clients decide how often the daemon is woken, and without a limit a client that rings
// without a pause would take a processor from everybody else. A thread that exceeds the budget rests, and keeps its
// class. The DecidingClass owns it. Lock-free; any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cupola::sched {

class RealTimeBudget {
 public:
  /// Charges the budget with `spent_ns` of work of one thread, done until `now_ns`. Returns how long that thread is to
  /// rest now, in ns; 0 = not at all. What is not used is saved up for kBurstNs at most.
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
  static constexpr uint64_t kCostOfWork = 2;  ///< time that each unit of work costs: half a processor
  static constexpr uint64_t kBurstNs = 20'000'000;

  std::atomic<uint64_t> paid_until_ns_{0};
};

}  // namespace cupola::sched
