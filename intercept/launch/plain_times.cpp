#include "intercept/launch/plain_times.h"

#include <algorithm>
#include <atomic>

#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

constexpr uint32_t kShapes = 8192;    // a power of two; further shapes stay unknown
constexpr uint32_t kMostProbes = 16;  // places at which a shape may stand
// The launches of a shape that are measured: not the first one, for which the driver may load the kernel, the next three,
// and then one of so many.
constexpr uint32_t kFirstMeasured = 1, kMeasured = 3, kMeasuredEvery = 128;

struct LearntShape {
  std::atomic<uint64_t> key{0};  ///< hash of the shape; 0 = the place is free
  std::atomic<uint32_t> launches{0};
  std::atomic<uint32_t> measured{0};
  std::atomic<uint64_t> ns{0};       ///< what is expected; 0 = not known
  std::atomic<uint64_t> judged{0};   ///< measurements after the first kMeasured
  std::atomic<uint64_t> judged_ns{0};  ///< sum of these
  std::atomic<uint64_t> error_ppm{0};  ///< sum over them of |expected - measured| / measured
};
LearntShape learnt_shapes[kShapes];

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

uint64_t KeyOf(const Launch& launch) {
  uint64_t hash = Mix(0x51ed270b, reinterpret_cast<uintptr_t>(launch.function));
  hash = Mix(hash, reinterpret_cast<uintptr_t>(launch.graph));
  for (int i = 0; i < 3; ++i) hash = Mix(hash, uint64_t{launch.grid[i]} << 32 | launch.block[i]);
  hash = Mix(hash, launch.shared_bytes);
  return hash | 1;
}

// The place of the shape; null if there is no room for it.
LearntShape* FindShape(uint64_t key) {
  for (uint32_t probe = 0; probe < kMostProbes; ++probe) {
    LearntShape& shape = learnt_shapes[(key >> 20 ^ probe) % kShapes];
    uint64_t there = shape.key.load(std::memory_order_relaxed);
    if (there == key) return &shape;
    if (there == 0 && (shape.key.compare_exchange_strong(there, key) || there == key)) return &shape;
  }
  return nullptr;
}

// Takes in a measurement. The events may enclose more than the launch: the host's time between the three calls where the
// stream was empty, or time slices of another process. So the shortest of the first ones counts, and later ones little.
void Learn(uint64_t index, uint64_t ns) noexcept {
  LearntShape& shape = learnt_shapes[index];
  ns = std::max<uint64_t>(ns, 1);
  const uint64_t before = shape.ns.load(std::memory_order_relaxed);
  const uint32_t measured = shape.measured.fetch_add(1, std::memory_order_relaxed);
  if (measured < kMeasured) {
    shape.ns.store(before == 0 ? ns : std::min(before, ns), std::memory_order_relaxed);
    return;
  }
  const uint64_t off = before > ns ? before - ns : ns - before;
  shape.judged.fetch_add(1, std::memory_order_relaxed);
  shape.judged_ns.fetch_add(ns, std::memory_order_relaxed);
  shape.error_ppm.fetch_add(off * 1'000'000 / ns, std::memory_order_relaxed);
  shape.ns.store((7 * before + std::min(ns, 2 * before)) / 8, std::memory_order_relaxed);
}

enum class Start : uint8_t { kNotYet, kUnderWay, kTried };
std::atomic<Start> start{Start::kNotYet};  // of the measuring

// Whether launches can be measured: not where records or a report already measure them, nor beside a tool.
bool MayMeasure() {
  if (ActiveRing() != nullptr || IsReported()) return false;
  Start now = start.load(std::memory_order_acquire);
  if (now == Start::kNotYet && start.compare_exchange_strong(now, Start::kUnderWay)) {
    (void)StartTimingFor(&Learn, /*waits_at_end=*/false);
    start.store(Start::kTried, std::memory_order_release);
  } else if (now != Start::kTried) {
    return false;
  }
  return timing_mode.load(std::memory_order_relaxed) == TimingMode::kEvents;
}

}  // namespace

PlainTime::PlainTime(const Launch& launch, const StreamKey& stream) noexcept : launch_(launch), context_(stream.context) {
  LearntShape* const shape = FindShape(KeyOf(launch));
  if (shape == nullptr) return;
  index_ = static_cast<uint32_t>(shape - learnt_shapes);
  ns_ = shape->ns.load(std::memory_order_relaxed);
  const uint32_t number = shape->launches.fetch_add(1, std::memory_order_relaxed);
  is_wanted_ = number < kFirstMeasured + kMeasured ? number >= kFirstMeasured : number % kMeasuredEvery == 0;
}

void PlainTime::Begin() noexcept {
  if (!is_wanted_ || !MayMeasure()) return;
  timed_ = BeginTimed(context_, launch_.stream, launch_.per_thread);
}

void PlainTime::End(CUresult result) noexcept {
  if (!EndTimed(timed_, launch_.stream, launch_.per_thread, result)) return;
  const uint64_t ticket = index_;
  SubmitTimed(timed_, &ticket);
}

PlainTimesQuality JudgePlainTimes(uint64_t least_ns) noexcept {
  PlainTimesQuality quality;
  for (const LearntShape& shape : learnt_shapes) {
    const uint64_t judged = shape.judged.load(std::memory_order_relaxed);
    if (judged == 0 || shape.judged_ns.load(std::memory_order_relaxed) / judged < least_ns) continue;
    ++quality.shapes;
    quality.mean_error += static_cast<double>(shape.error_ppm.load(std::memory_order_relaxed)) / 1e6 /
                          static_cast<double>(judged);
  }
  if (quality.shapes != 0) quality.mean_error /= quality.shapes;
  return quality;
}

// How good predictions were stays known: a program unloads its modules before it ends.
void ForgetPlainTimes() noexcept {
  for (LearntShape& shape : learnt_shapes) {
    shape.launches.store(0, std::memory_order_relaxed);
    shape.measured.store(0, std::memory_order_relaxed);
    shape.ns.store(0, std::memory_order_relaxed);
  }
}

void ForgetPlainTimesAfterFork() noexcept {
  ForgetPlainTimes();
  start.store(Start::kNotYet);
}

}  // namespace cupola::intercept
