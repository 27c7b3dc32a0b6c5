#include "intercept/preempt/demand.h"

#include "intercept/fast_clock.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"

namespace cupola::intercept::preempt {
namespace {

using Phase = DemandState::Phase;

// A lease where nothing is predicted: several times what kernels take, since the end of most
// demands is seen by a synchronising call.
constexpr uint64_t kLeaseNs = 20'000'000;
// To stop and resume another process costs about 150 us of its time (two context switches). A
// process that comes back within less keeps the GPU meanwhile; one that does not gives it up at
// once.
constexpr uint64_t kShortGapNs = 60'000;
constexpr uint64_t kTickNs = 1'000'000;

uint64_t LeaseFor(uint64_t predicted_ns) {
  return predicted_ns * 2 > kLeaseNs ? predicted_ns * 2 : kLeaseNs;
}

// One thread at a time changes demand; others see that it is being changed and wait a moment.
bool Enter(DemandState& state, Phase from) {
  Phase phase = from;
  return state.phase.compare_exchange_strong(phase, Phase::kChanging);
}

void Begin(PreemptContext& context, uint64_t stream, uint64_t predicted_ns) {
  GpuBoard& gpu = *context.gpu;
  DemandState& state = gpu.demand;
  while (!Enter(state, Phase::kNone)) {
    if (state.phase.load() == Phase::kOn) return;
    __builtin_ia32_pause();
  }
  const uint64_t now = NowNs();
  const uint64_t ended = state.ended_ns.load(std::memory_order_relaxed);
  state.gaps_are_short.store(ended != 0 && now - ended < kShortGapNs, std::memory_order_relaxed);
  state.stream.store(stream, std::memory_order_relaxed);
  state.renewed_ns.store(now, std::memory_order_relaxed);
  state.end_at_ns.store(0, std::memory_order_relaxed);
  Count(counters.demands);
  sched::BeginDemand(gpu.board(), gpu.index(),
                     {.remaining_ns = predicted_ns, .lease_ns = LeaseFor(predicted_ns)}, now);
  state.phase.store(Phase::kOn);
}

void End(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (!Enter(state, Phase::kOn)) return;
  sched::EndDemand(gpu.board(), gpu.index());
  state.ended_ns.store(now_ns, std::memory_order_relaxed);
  state.stream.store(kNoStream, std::memory_order_relaxed);
  state.phase.store(Phase::kNone);
}

}  // namespace

void NoteDemand(PreemptContext& context, uint64_t stream, uint64_t predicted_ns) noexcept {
  DemandState& state = context.gpu->demand;
  state.launches.fetch_add(1);
  if (state.phase.load() != Phase::kOn) {
    Begin(context, stream, predicted_ns);
    return;
  }
  if (state.stream.load(std::memory_order_relaxed) != stream) {
    state.stream.store(kManyStreams, std::memory_order_relaxed);
  }
  state.end_at_ns.store(0, std::memory_order_relaxed);
  const uint64_t now = NowNs();
  if (now - state.renewed_ns.load(std::memory_order_relaxed) < kLeaseNs / 4) return;
  state.renewed_ns.store(now, std::memory_order_relaxed);
  sched::UpdateDemand(context.gpu->board(), context.gpu->index(),
                      {.remaining_ns = predicted_ns, .lease_ns = LeaseFor(predicted_ns)}, now);
}

SyncPoint BeforeSync(PreemptContext* context, uint64_t stream, bool whole_context) noexcept {
  if (context == nullptr) return {};
  return {context, context->gpu->demand.launches.load(), stream, whole_context};
}

void AfterSync(const SyncPoint& point) noexcept {
  if (point.context == nullptr) return;
  GpuBoard& gpu = *point.context->gpu;
  DemandState& state = gpu.demand;
  const uint64_t burst = state.stream.load(std::memory_order_relaxed);
  const bool nothing_left = point.whole_context || burst == point.stream;
  if (state.phase.load() != Phase::kOn || !nothing_left ||
      state.launches.load() != point.launches) {
    return;
  }
  const uint64_t now = NowNs();
  if (state.gaps_are_short.load(std::memory_order_relaxed)) {
    state.end_at_ns.store(now + kShortGapNs);
    return;  // the agent ends it, unless a launch comes first
  }
  End(gpu, now);
  // A launch counts itself before it looks at the phase: either we see it here, or it sees kNone.
  if (state.launches.load() != point.launches) Begin(*point.context, kManyStreams, 0);
}

uint64_t DemandTickNs(GpuBoard& gpu) noexcept {
  if (gpu.demand.phase.load() != Phase::kOn) return UINT64_MAX;
  return gpu.demand.gaps_are_short.load(std::memory_order_relaxed) ? kShortGapNs : kTickNs;
}

void LookAfterDemand(GpuBoard& gpu, uint64_t now_ns) noexcept {
  DemandState& state = gpu.demand;
  if (state.phase.load() != Phase::kOn) return;
  const uint64_t end_at = state.end_at_ns.load();
  if (end_at != 0 && now_ns >= end_at) return End(gpu, now_ns);
  if (now_ns < gpu.slot().demand_until_ns.load()) return;
  bool has_guarded = false;
  ForEachContext([&](PreemptContext& context) {
    has_guarded |= context.gpu == &gpu && context.outstanding.load() != 0;
  });
  if (!has_guarded) return End(gpu, now_ns);
  state.renewed_ns.store(now_ns, std::memory_order_relaxed);
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = kLeaseNs}, now_ns);
}

void DropDemandAtExit() noexcept {
  ForEachContext([&](PreemptContext& context) { End(*context.gpu, NowNs()); });
}

void ForgetDemandAfterFork() noexcept {}

}  // namespace cupola::intercept::preempt
