// The time of CLOCK_MONOTONIC in nanoseconds, computed from the time stamp counter: no system call, a
// few nanoseconds. If the counter is not invariant, clock_gettime is called instead. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <x86intrin.h>

namespace cupola::intercept {

/// One fit of the counter to the clock: ns = base_ns + ((ticks - base_ticks) * scale >> 32).
struct ClockFit {
  uint64_t base_ticks;
  uint64_t base_ns;
  uint64_t scale;          ///< nanoseconds a tick, 32.32 fixed point
  uint64_t refresh_ticks;  ///< age in ticks at which a new fit is made

  /// How many nanoseconds so many ticks take.
  uint64_t NsOf(uint64_t ticks) const noexcept {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * scale) >> 32);
  }
};

/// The time of CLOCK_MONOTONIC, by clock_gettime.
uint64_t MonotonicNs() noexcept;

/// Makes the first fit. Called before NowNs; later calls do nothing. Takes about 100 us.
void StartFastClock() noexcept;

/// The current fit; null if the counter is not used. A fit is written once, into a ring of 1,024 fits
/// that takes more than ten seconds to come round, so a reader needs no lock.
extern std::atomic<const ClockFit*> clock_fit;

/// Makes a new fit, if no other thread is doing so, and returns the time by it. The old fit is worthless if the machine
/// slept or was moved to another one: the counter may have gone on while the clock stood, or begun anew.
uint64_t NowAfterRefresh() noexcept;

/// The time of CLOCK_MONOTONIC, within about a microsecond. It does not step back, except by the small
/// difference between threads that read it during a refresh.
inline uint64_t NowNs() noexcept {
  const ClockFit* fit = clock_fit.load(std::memory_order_acquire);
  if (fit == nullptr) [[unlikely]] return MonotonicNs();
  const uint64_t age = __rdtsc() - fit->base_ticks;
  if (age > fit->refresh_ticks) [[unlikely]] {
    // The age is "negative" if this thread read the counter before another thread's refresh.
    if (-age <= fit->refresh_ticks) {
      return fit->base_ns - fit->NsOf(-age);
    }
    return NowAfterRefresh();
  }
  return fit->base_ns + fit->NsOf(age);
}

}  // namespace cupola::intercept
