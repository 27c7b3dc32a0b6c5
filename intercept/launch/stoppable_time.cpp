#include "intercept/launch/stoppable_time.h"

#include <algorithm>
#include <atomic>

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/plain_times.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {
namespace {

// Why launches could not be stopped within, with their time. The texts are few: they are literals of this library.
struct Why {
  std::atomic<const char*> text{nullptr};
  std::atomic<uint64_t> ns{0};
};
constexpr uint32_t kMostReasons = 16;
Why reasons[kMostReasons];

constexpr uint64_t kLoudNs = 250'000'000;

// Of all GPUs, since the board's slots may belong to others when the process ends.
std::atomic<uint64_t> at_blocks_ns{0}, between_kernels_ns{0}, not_at_all_ns{0};

uint64_t Read(const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

void CountWhy(uint64_t ns, const char* text) {
  for (Why& why : reasons) {
    const char* there = why.text.load(std::memory_order_relaxed);
    if (there == nullptr && why.text.compare_exchange_strong(there, text)) there = text;
    if (there != text) continue;
    why.ns.fetch_add(ns, std::memory_order_relaxed);
    return;
  }
}

const char* MainReason() {
  const Why* const most = std::max_element(std::begin(reasons), std::end(reasons), [](const Why& a, const Why& b) {
    return a.ns.load(std::memory_order_relaxed) < b.ns.load(std::memory_order_relaxed);
  });
  const char* const text = most->text.load(std::memory_order_relaxed);
  return text != nullptr ? text : "";
}

}  // namespace

void CountStopsAtBlocks(GpuBoard& gpu, uint64_t ns) noexcept {
  at_blocks_ns.fetch_add(ns, std::memory_order_relaxed);
  if (!gpu.has_left()) gpu.slot().gpu_ns.fetch_add(ns, std::memory_order_relaxed);
}

void CountStopsBetween(GpuBoard& gpu, uint64_t ns) noexcept {
  between_kernels_ns.fetch_add(ns, std::memory_order_relaxed);
  if (!gpu.has_left()) gpu.slot().between_ns.fetch_add(ns, std::memory_order_relaxed);
}

void CountStopsNot(GpuBoard& gpu, uint64_t ns, const char* why) noexcept {
  not_at_all_ns.fetch_add(ns, std::memory_order_relaxed);
  if (!gpu.has_left()) gpu.slot().unstoppable_ns.fetch_add(ns, std::memory_order_relaxed);
  if (ns != 0) CountWhy(ns, why);
}

void SayStoppableTime() noexcept {
  const uint64_t at_blocks = Read(at_blocks_ns), between = Read(between_kernels_ns), not_at_all = Read(not_at_all_ns);
  if (between + not_at_all == 0) return;
  const uint64_t all = at_blocks + between + not_at_all;
  const bool is_loud = not_at_all >= kLoudNs && 4 * not_at_all >= all;
  const auto percent = [all](uint64_t ns) { return Decimal((100 * ns + all / 2) / all); };
  Say(is_loud ? Level::kWarn : Level::kInfo,
      {"preemption: of ", Decimal(all / 1'000'000), " ms of GPU time ", percent(at_blocks), " % could be stopped at blocks, ",
       percent(between), " % between kernels, ", percent(not_at_all), " % not at all",
       not_at_all != 0 ? ", most of it a graph launched whole: " : "", not_at_all != 0 ? MainReason() : ""});
  constexpr uint64_t kJudgedFromNs = 20'000;
  const PlainTimesQuality quality = JudgePlainTimes(kJudgedFromNs);
  if (quality.shapes == 0) return;
  Say(Level::kInfo, {"preemption: ", Decimal(quality.shapes), " shapes of plain kernels of 20 us or more were predicted, off by ",
                     Decimal(static_cast<uint64_t>(quality.mean_error * 1000 + 0.5)), " per mille on average"});
}

}  // namespace cupola::intercept
