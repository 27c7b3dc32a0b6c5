#include "intercept/process/fast_clock.h"

#include <ctime>

#include <cpuid.h>

namespace cupola::intercept {
namespace {

constexpr uint64_t kFirstFitNs = 100'000;
constexpr uint64_t kRefreshNs = 10'000'000;
constexpr uint64_t kJumpNs = 100'000'000;
constexpr uint32_t kFits = 1024;

struct Sample {
  uint64_t ticks;  // of the counter
  uint64_t ns;     // of the clock
};

ClockFit fits[kFits];
uint32_t next_fit = 0;                  // used by the thread that has set `fitting`
std::atomic<bool> fitting{false};
Sample first_sample;

bool HasInvariantCounter() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
}

// Reads both clocks three times and returns the reading that took least time, so that an interrupt
// between the two clocks does no harm.
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

// a * b / c without overflow on the way; c is not 0.
uint64_t MultiplyDivide(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b / c);
}

// Whether the counter and the clock have drifted apart since the last fit, by more than kJumpNs.
bool HasJumped(const Sample& now, const ClockFit& old) {
  const uint64_t age = now.ticks - old.base_ticks;
  if (static_cast<int64_t>(age) < 0) return true;
  const uint64_t shown_ns = old.base_ns + old.NsOf(age);
  return shown_ns > now.ns + kJumpNs || now.ns > shown_ns + kJumpNs;
}

void Publish(const ClockFit& made) {
  ClockFit& fit = fits[next_fit++ % kFits];
  fit = made;
  clock_fit.store(&fit, std::memory_order_release);
}

// Makes a new fit, a line. It starts at the time that the old line shows now and aims at the time
// that the clock will have at the next refresh. So the time never steps back, and an error of one
// reading is gone 10 ms later. If the old line and the clock are far apart (the machine slept), the
// time steps, and earlier samples are not used any more.
void PublishFit(const Sample& now) {
  const ClockFit* const before = clock_fit.load(std::memory_order_relaxed);
  if (before != nullptr && HasJumped(now, *before)) {
    first_sample = now;
    return Publish({now.ticks, now.ns, before->scale, before->refresh_ticks});
  }
  const uint64_t ticks = now.ticks - first_sample.ticks;
  if (ticks == 0 || now.ns <= first_sample.ns) return;
  const uint64_t true_scale = MultiplyDivide(now.ns - first_sample.ns, uint64_t{1} << 32, ticks);
  if (true_scale == 0) return;
  const uint64_t refresh_ticks = MultiplyDivide(kRefreshNs, uint64_t{1} << 32, true_scale);
  uint64_t base_ns = now.ns, scale = true_scale;
  if (const ClockFit* old = clock_fit.load(std::memory_order_relaxed)) {
    const uint64_t shown_ns =
        old->base_ns + old->NsOf(now.ticks - old->base_ticks);
    const uint64_t target_ns = now.ns + kRefreshNs;
    if (shown_ns < now.ns + kRefreshNs / 2 && now.ns < shown_ns + kRefreshNs / 2) {
      base_ns = shown_ns;
      scale = MultiplyDivide(target_ns - shown_ns, uint64_t{1} << 32, refresh_ticks);
    }
  }
  Publish({now.ticks, base_ns, scale, refresh_ticks});
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

uint64_t NowAfterRefresh() noexcept {
  if (!fitting.exchange(true, std::memory_order_acquire)) {
    PublishFit(TakeSample());
    fitting.store(false, std::memory_order_release);
  }
  const ClockFit* const fit = clock_fit.load(std::memory_order_acquire);
  const uint64_t age = __rdtsc() - fit->base_ticks;
  if (age > fit->refresh_ticks) return MonotonicNs();
  return fit->base_ns + fit->NsOf(age);
}

}  // namespace cupola::intercept
