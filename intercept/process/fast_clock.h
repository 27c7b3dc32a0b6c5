// CLOCK_MONOTONIC nanoseconds from the time stamp counter: no system call, a few nanoseconds.
// Any thread. Where the counter is not invariant, clock_gettime instead.
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
  uint64_t refresh_ticks;  ///< age at which the fit is made anew

  /// How long so many ticks take.
  uint64_t NsOf(uint64_t ticks) const noexcept {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * scale) >> 32);
  }
};

/// CLOCK_MONOTONIC now, by clock_gettime.
uint64_t MonotonicNs() noexcept;

/// Fits the clock; called once before NowNs. Takes about 100 us.
void StartFastClock() noexcept;

/// The current fit; null where the counter is not used. Fits are written once and kept in a ring of
/// 1,024 that takes longer than ten seconds to come round, so a reader needs no lock.
extern std::atomic<const ClockFit*> clock_fit;

/// Makes a new fit if no other thread is at it, and reads that. Where the machine slept, or became another one, the
/// old fit says nothing: the counter may have gone on while the clock stood, or begun anew.
uint64_t NowAfterRefresh() noexcept;

/// CLOCK_MONOTONIC now, within a microsecond or so. Does not step back, but for what the threads
/// that read during a refresh may differ by.
inline uint64_t NowNs() noexcept {
  const ClockFit* fit = clock_fit.load(std::memory_order_acquire);
  if (fit == nullptr) [[unlikely]] return MonotonicNs();
  const uint64_t age = __rdtsc() - fit->base_ticks;
  if (age > fit->refresh_ticks) [[unlikely]] {
    // A "negative" age comes of a thread that read the counter before another thread's refresh.
    if (-age <= fit->refresh_ticks) {
      return fit->base_ns - fit->NsOf(-age);
    }
    return NowAfterRefresh();
  }
  return fit->base_ns + fit->NsOf(age);
}

}  // namespace cupola::intercept
