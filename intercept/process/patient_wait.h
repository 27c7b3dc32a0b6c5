// PatientWait: the pauses of a loop that polls a word which another thread or the device will change without waking
// anybody. The thread first spins, then yields its processor, then sleeps, ever longer. So a long wait takes next to
// nothing of a processor that others need, the arbiter's daemon among them. The waiting thread makes one object for
// each wait. libc only.
#pragma once

#include <algorithm>
#include <cstdint>

#include <sched.h>
#include <time.h>
#include <xmmintrin.h>

#include "intercept/process/fast_clock.h"

namespace cupola::intercept {

class PatientWait {
 public:
  /// Returns after a moment. `is_held`: what is waited for cannot come before others let this process go; then the
  /// thread does not yield its processor, and its sleeps grow faster.
  void Pause(bool is_held = false) noexcept {
    const uint64_t waited_ns = WaitedNs();
    if (waited_ns < kSpinNs) {
      for (int i = 0; i < 16; ++i) _mm_pause();
    } else if (!is_held && waited_ns < kYieldNs) {
      sched_yield();
    } else {
      const timespec nap{0, static_cast<long>(is_held ? HeldNapNs() : NapNs(waited_ns, kPartOfWait, kLongestNapNs))};
      nanosleep(&nap, nullptr);
    }
  }

  /// Nanoseconds since the first call of this object, or the last Restart.
  uint64_t WaitedNs() noexcept {
    const uint64_t now_ns = NowNs();
    if (since_ns_ == 0) since_ns_ = now_ns;
    return now_ns - since_ns_;
  }
  /// Whether the next Pause would spin.
  bool MaySpin() noexcept { return WaitedNs() < kSpinNs; }
  /// How many nanoseconds Pause(true) would sleep now, for callers that sleep until they are let go.
  uint64_t HeldNapNs() noexcept { return NapNs(WaitedNs(), kPartOfHeldWait, kLongestHeldNapNs); }
  /// The process was let go just now, and what is waited for may come soon: the next pauses yield the processor, and do
  /// not spin.
  void Restart() noexcept { since_ns_ = NowNs() - kSpinNs; }

 private:
  static constexpr uint64_t kSpinNs = 20'000, kYieldNs = 2'000'000;
  static constexpr uint64_t kShortestNapNs = 50'000, kLongestNapNs = 1'000'000, kPartOfWait = 64;
  static constexpr uint64_t kLongestHeldNapNs = 10'000'000, kPartOfHeldWait = 16;

  static uint64_t NapNs(uint64_t waited_ns, uint64_t part, uint64_t longest_ns) noexcept {
    return std::clamp(waited_ns / part, kShortestNapNs, longest_ns);
  }

  uint64_t since_ns_ = 0;  ///< begin of the wait; 0 = not called yet
};

}  // namespace cupola::intercept
