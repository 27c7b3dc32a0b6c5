// PatientWait: the pauses of a loop that looks at a word which another thread or the device will change, and which
// nobody is woken for. The caller spins for a moment, then offers its processor, then sleeps, ever longer: whoever
// waits long takes next to nothing of a processor that the others need, the arbiter's daemon among them. One object for
// one wait, made by the waiting thread. libc only.
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
  /// sleeps grow faster.
  void Pause(bool is_held = false) noexcept {
    const uint64_t now_ns = NowNs();
    if (since_ns_ == 0) since_ns_ = now_ns;
    const uint64_t waited_ns = now_ns - since_ns_;
    if (waited_ns < kSpinNs) {
      for (int i = 0; i < 16; ++i) _mm_pause();
    } else if (waited_ns < (is_held ? kSpinNs : kYieldNs)) {
      sched_yield();
    } else {
      const uint64_t part = is_held ? kPartOfHeldWait : kPartOfWait;
      const uint64_t longest_ns = is_held ? kLongestHeldNapNs : kLongestNapNs;
      const timespec nap{0, static_cast<long>(std::clamp(waited_ns / part, kShortestNapNs, longest_ns))};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr uint64_t kSpinNs = 20'000, kYieldNs = 2'000'000;
  static constexpr uint64_t kShortestNapNs = 50'000, kLongestNapNs = 1'000'000, kPartOfWait = 64;
  static constexpr uint64_t kLongestHeldNapNs = 10'000'000, kPartOfHeldWait = 16;

  uint64_t since_ns_ = 0;
};

}  // namespace cupola::intercept
