// RemainingTime: FLEP's triplet of one launch (section 5.1): predicted duration T_e, time spent
// waiting T_w, remaining time T_r. Times are passed in, nothing reads a clock, so the same code
// serves the daemon, the preloaded library and a simulation. Owned by one thread.
#pragma once

#include <cstdint>

namespace cupola::models {

class RemainingTime {
 public:
  /// The launch arrives, predicted to run for `expected_ns`; it waits from `now_ns` on.
  RemainingTime(uint64_t expected_ns, uint64_t now_ns);

  /// It gets the GPU, or loses it. The same state again changes nothing.
  void Run(uint64_t now_ns);
  void Stop(uint64_t now_ns);

  /// `completed` of `total` blocks had run to their end at `now_ns`. Never goes back.
  void Progress(uint64_t completed, uint64_t total, uint64_t now_ns);

  uint64_t expected_ns() const { return expected_ns_; }                ///< T_e: never changes
  uint64_t waited_ns(uint64_t now_ns) const;                           ///< T_w
  uint64_t ran_ns(uint64_t now_ns) const;
  /// T_r. From the prediction alone: T_e - time run; once that is overrun, half of the overrun,
  /// since what is late stays late in proportion. With progress f after time r: what is left, 1 -
  /// f, of a duration between T_e and r / f, the latter weighing f; less the time run since.
  uint64_t remaining_ns(uint64_t now_ns) const;

 private:
  void Account(uint64_t now_ns);

  uint64_t expected_ns_;
  uint64_t since_ns_;          // of the present state
  uint64_t waited_ns_ = 0;     // before that
  uint64_t ran_ns_ = 0;
  bool running_ = false;
  double fraction_ = 0;        // of the blocks, at the last Progress
  uint64_t ran_at_fraction_ = 0;
};

}  // namespace cupola::models
