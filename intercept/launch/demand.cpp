#include "intercept/launch/demand.h"

#include "intercept/facts/streams.h"
#include "intercept/launch/burst.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {
namespace {

using burst::FindStream;
using Phase = DemandState::Phase;

// A launch renews the lease when this time has passed since it was last renewed.
constexpr uint64_t kRenewAfterNs = 5'000'000;

// Whether each stream of the burst has been waited for since its last launch; `point` is the wait
// that has just ended. A program may wait for its streams one by one.
bool AllAreWaitedFor(DemandState& state, const SyncPoint& point) {
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  BurstStream* const waited = FindStream(state, point.stream);
  if (waited == nullptr || count > kMarkedStreams) return false;
  waited->waited.store(point.launches, std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    const BurstStream& one = state.burst[i];
    if (one.waited.load(std::memory_order_relaxed) < one.launched.load(std::memory_order_relaxed)) {
      return false;
    }
  }
  return true;
}

// Whether all streams of the burst belong to this context. Most programs have only one context.
bool IsAllOf(const LaunchContext& context) {
  bool has_other = false;
  ForEachContext([&](const LaunchContext& other) {
    has_other |= other.gpu == context.gpu && &other != &context;
  });
  if (!has_other) return true;
  const DemandState& state = context.gpu->demand;
  const MutexLock lock(state.marker_mutex);
  const uint32_t count = state.streams.load();
  if (count > kMarkedStreams) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (state.burst[i].context != &context) return false;
  }
  return true;
}

// The program waits for work of the GPU, and its burst does not ask.
void WaitUnasked(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (state.ask_at.load(std::memory_order_relaxed) == AskAt::kWait) return burst::AskLate(gpu, now_ns);
  state.waits_since_ns.store(now_ns, std::memory_order_relaxed);
}

bool IsUnasked(const DemandState& state) {
  return state.phase.load(std::memory_order_relaxed) == Phase::kOn && !state.asks.load(std::memory_order_relaxed);
}

}  // namespace

// A marker that was put before is reached nevertheless.
void ForgetStreamOfDemand(CUstream stream) noexcept {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return;
  const LaunchContext* const context = FindContext(KnownContextOf(stream));
  if (context == nullptr) return;
  DemandState& state = context->gpu->demand;
  const MutexLock lock(state.marker_mutex);
  for (BurstStream& one : state.burst) {
    if (one.handle == stream) one.handle = nullptr;
  }
}

void ForgetContextOfDemand(LaunchContext& context) noexcept {
  DemandState& state = context.gpu->demand;
  const MutexLock lock(state.marker_mutex);
  for (BurstStream& one : state.burst) {
    if (one.context != &context) continue;
    one.handle = nullptr;
    one.context = nullptr;
  }
}

sched::Wakes AnnounceDemand(LaunchContext& context, uint64_t stream, CUstream handle,
                        uint64_t predicted_ns, uint32_t sms) noexcept {
  DemandState& state = context.gpu->demand;
  state.launches.fetch_add(1);
  sched::Wakes wakes;
  if (context.gpu->has_left()) [[unlikely]]
    return wakes;
  if (state.phase.load() != Phase::kOn &&
      burst::Begin(context, stream, handle, predicted_ns, sms, &wakes)) {
    return wakes;
  }
  if (state.stream.load(std::memory_order_relaxed) != stream) {
    state.stream.store(kManyStreams, std::memory_order_relaxed);
    burst::AddStream(state, context, stream, handle);
    sms = runtime::kAllSms;
  } else {  // the first stream, and the only one so far
    state.burst[0].launched.store(state.launches.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  }
  const uint64_t now = NowNs();
  if (state.end_at_ns.load(std::memory_order_relaxed) != 0) {
    state.end_at_ns.store(0, std::memory_order_relaxed);
    state.issued_since_ns.store(now, std::memory_order_relaxed);
  }
  if (state.sms.load(std::memory_order_relaxed) < sms) burst::NeedMoreSms(*context.gpu, sms, now);
  // Signed: the agent may have renewed the lease after `now` was read.
  const auto age_ns = static_cast<int64_t>(now - state.renewed_ns.load(std::memory_order_relaxed));
  if (age_ns < static_cast<int64_t>(kRenewAfterNs) || !state.asks.load()) return wakes;
  state.renewed_ns.store(now, std::memory_order_relaxed);
  sched::UpdateDemand(context.gpu->board(), context.gpu->index(),
                      {.remaining_ns = predicted_ns,
                       .lease_ns = burst::LeaseFor(*context.gpu, predicted_ns),
                       .sms = state.sms.load(),
                       .overhead_ns = context.gpu->overhead_ns()},
                      context.gpu->OnBoard(now));
  return wakes;
}

SyncPoint BeforeSync(LaunchContext* context, uint64_t stream, bool whole_context) noexcept {
  if (context == nullptr) return {};
  DemandState& state = context->gpu->demand;
  const uint64_t now = NowNs();
  if (IsUnasked(state)) {
    const bool is_for_burst = whole_context || state.streams.load(std::memory_order_acquire) > kMarkedStreams ||
                              FindStream(state, stream) != nullptr;
    if (is_for_burst) WaitUnasked(*context->gpu, now);
  }
  return {context, state.launches.load(), stream, whole_context, now};
}

bool MayAskAtEventSync() noexcept {
  bool is_any_unasked = false;
  ForEachContext([&](const LaunchContext& context) { is_any_unasked |= IsUnasked(context.gpu->demand); });
  return is_any_unasked;
}

void BeforeEventSync(LaunchContext* context) noexcept {
  if (context != nullptr && IsUnasked(context->gpu->demand)) WaitUnasked(*context->gpu, NowNs());
}

void AfterSync(const SyncPoint& point) noexcept {
  if (point.context == nullptr) return;
  if (point.context->outstanding.load() != 0) resident.guarded.harvest(*point.context);
  GpuBoard& gpu = *point.context->gpu;
  DemandState& state = gpu.demand;
  state.waits_since_ns.store(0, std::memory_order_relaxed);
  const uint64_t burst = state.stream.load(std::memory_order_relaxed);
  const bool nothing_left =
      point.whole_context ? IsAllOf(*point.context)
                          : burst == point.stream ||
                                (burst == kManyStreams && AllAreWaitedFor(state, point));
  if (!nothing_left || state.launches.load() != point.launches) return;
  state.ended_launches.store(point.launches);
  if (!burst::Enter(gpu)) return;
  const uint64_t now = NowNs();
  // A burst whose wait was too long for its way counts as one of this way, with that wait.
  state.ask_choice.Note(state.ask_at.load(), state.issued_since_ns.load(), point.called_ns, now);
  const bool lingers = state.gaps_are_short.load(std::memory_order_relaxed) &&
                       state.ask_choice.now() == AskAt::kFirstLaunch;
  if (lingers) {
    state.end_launches.store(point.launches, std::memory_order_relaxed);
    state.end_at_ns.store(now + preemption_settings.short_gap_ns);
    state.phase.store(Phase::kOn);
    // The agent may be asleep for long. If nobody heeds the demand there is no hurry to wake it.
    if (burst::IsHeeded(gpu)) gpu.WakeAgent();
    return;  // the agent ends it, unless a launch comes first
  }
  burst::EndEntered(gpu, now);
  burst::BeginIfLaunched(gpu, point.launches);
}

void DropDemandAtExit() noexcept {
  ForEachContext([&](LaunchContext& context) { burst::End(*context.gpu, NowNs()); });
}

}  // namespace cupola::intercept
