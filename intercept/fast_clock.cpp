#include "intercept/fast_clock.h"

#include <ctime>

#include <cpuid.h>

namespace cupola::intercept {
namespace {

constexpr uint64_t kFirstFitNs = 100'000;
constexpr uint64_t kRefreshNs = 10'000'000;
constexpr uint32_t kFits = 1024;

struct Sample {
  uint64_t ticks, ns;
};

ClockFit fits[kFits];
uint32_t next_fit = 0;                  // owned by whoever holds `fitting`
std::atomic<bool> fitting{false};
Sample first_sample;

bool HasInvariantCounter() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
}

// The tightest of three readings, so that an interrupt between the two clocks does not count.
Sample TakeSample() {
  Sample best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = __rdtsc();
    const uint64_t ns = MonotonicNs();
    const uint64_t after = __rdtsc();
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + (after - before) / 2, ns};
    }
  }
  return best;
}

void PublishFit(const Sample& now) {
  const uint64_t ticks = now.ticks - first_sample.ticks;
  if (ticks == 0 || now.ns <= first_sample.ns) return;
  const auto scale = static_cast<uint64_t>(
      (static_cast<unsigned __int128>(now.ns - first_sample.ns) << 32) / ticks);
  if (scale == 0) return;
  ClockFit& fit = fits[next_fit++ % kFits];
  fit = {now.ticks, now.ns, scale,
         static_cast<uint64_t>((static_cast<unsigned __int128>(kRefreshNs) << 32) / scale)};
  clock_fit.store(&fit, std::memory_order_release);
}

}  // namespace

std::atomic<const ClockFit*> clock_fit{nullptr};

uint64_t MonotonicNs() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void StartFastClock() noexcept {
  if (clock_fit.load(std::memory_order_acquire) != nullptr || !HasInvariantCounter()) return;
  if (fitting.exchange(true, std::memory_order_acquire)) return;
  first_sample = TakeSample();
  Sample now = first_sample;
  while (now.ns - first_sample.ns < kFirstFitNs) now = TakeSample();
  PublishFit(now);
  fitting.store(false, std::memory_order_release);
}

void RefreshClockFit() noexcept {
  if (fitting.exchange(true, std::memory_order_acquire)) return;
  PublishFit(TakeSample());
  fitting.store(false, std::memory_order_release);
}

}  // namespace cupola::intercept
