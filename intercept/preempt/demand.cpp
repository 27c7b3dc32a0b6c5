#include "intercept/preempt/demand.h"

#include <algorithm>
#include <utility>

#include "intercept/facts/streams.h"
#include "intercept/preempt/agent_context.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/gates.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/patient_wait.h"
#include "intercept/tasks/task_demand.h"

namespace cupola::intercept::preempt {
namespace {

using Phase = DemandState::Phase;

// A lease where nothing is predicted: several times what kernels take, since the end of most
// demands is seen by a synchronising call.
constexpr uint64_t kLeaseNs = 20'000'000;
constexpr uint64_t kTickNs = 1'000'000, kIdleTickNs = 10'000'000;
constexpr uint64_t kLatelyNs = 1'000'000'000;

uint64_t LeaseFor(const GpuBoard& gpu, uint64_t predicted_ns) {
  return std::max(predicted_ns * 2, gpu.requests() != 0 ? kHeldLeaseNs : kLeaseNs);
}

// Whether anybody waits for this process's demand to end: those that it asks itself, or the daemon,
// which holds others while it lasts.
bool IsHeeded(const GpuBoard& gpu) {
  return gpu.may_ask() || gpu.board().header().attention.load(std::memory_order_relaxed) != 0;
}

// One thread at a time changes demand; others see that it is being changed and wait a moment.
bool Enter(DemandState& state, Phase from) {
  Phase phase = from;
  return state.phase.compare_exchange_strong(phase, Phase::kChanging);
}

// One that cannot be told apart (kManyStreams) fills the list: no markers.
void AddStreamLocked(DemandState& state, PreemptContext& context, uint64_t stream,
                     CUstream handle) {
  const uint32_t count = state.streams.load(std::memory_order_relaxed);
  if (count > kMarkedStreams) return;
  if (stream == kManyStreams || count == kMarkedStreams) {
    state.streams.store(kMarkedStreams + 1, std::memory_order_relaxed);
    return;
  }
  BurstStream& added = state.burst[count];
  added.handle = handle;
  added.context = &context;
  added.launched.store(state.launches.load(std::memory_order_relaxed), std::memory_order_relaxed);
  added.waited.store(0, std::memory_order_relaxed);
  added.id.store(stream, std::memory_order_relaxed);
  state.streams.store(count + 1, std::memory_order_release);
}

BurstStream* FindStream(DemandState& state, uint64_t stream) {
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count && i < kMarkedStreams; ++i) {
    if (state.burst[i].id.load(std::memory_order_relaxed) == stream) return &state.burst[i];
  }
  return nullptr;
}

// Whether each stream of the burst has been waited for since its last launch, this one just now: a
// program may wait for its streams one by one.
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

// Whether the burst has streams of no other context than this one. Most programs have one only.
bool IsAllOf(const PreemptContext& context) {
  bool has_other = false;
  ForEachContext([&](const PreemptContext& other) {
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

void AddStream(DemandState& state, PreemptContext& context, uint64_t stream, CUstream handle) {
  if (state.streams.load(std::memory_order_acquire) > kMarkedStreams) return;  // no more matter
  if (BurstStream* const known = FindStream(state, stream); known != nullptr) {
    known->launched.store(state.launches.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
    return;
  }
  const MutexLock lock(state.marker_mutex);
  if (FindStream(state, stream) == nullptr) AddStreamLocked(state, context, stream, handle);
}

// False: another thread has begun.
bool Begin(PreemptContext& context, uint64_t stream, CUstream handle, uint64_t predicted_ns,
           uint32_t sms, sched::Wakes* wakes) {
  GpuBoard& gpu = *context.gpu;
  DemandState& state = gpu.demand;
  for (PatientWait wait; !Enter(state, Phase::kNone); wait.Pause()) {
    if (state.phase.load() == Phase::kOn) return false;
  }
  const uint64_t now = NowNs();
  const uint64_t ended = state.ended_ns.load(std::memory_order_relaxed);
  state.gaps_are_short.store(ended != 0 && now - ended < settings.short_gap_ns,
                             std::memory_order_relaxed);
  {
    const MutexLock lock(state.marker_mutex);
    state.streams.store(0);
    AddStreamLocked(state, context, stream, handle);
  }
  state.stream.store(stream, std::memory_order_relaxed);
  state.renewed_ns.store(now, std::memory_order_relaxed);
  state.begun_ns.store(now, std::memory_order_relaxed);
  state.begun_launches.store(state.launches.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  state.end_at_ns.store(0, std::memory_order_relaxed);
  Count(counters.demands);
  state.sms.store(sms, std::memory_order_relaxed);
  if (gpu.has_kernel_rules()) (void)gpu.PublishKernel();  // the daemon is rung for below
  *wakes = sched::BeginDemand(gpu.board(), gpu.index(),
                              {.remaining_ns = predicted_ns,
                               .lease_ns = LeaseFor(gpu, predicted_ns),
                               .sms = sms,
                               .overhead_ns = gpu.overhead_ns()},
                              gpu.OnBoard(now));
  state.phase.store(Phase::kOn);
  // The agent renews the lease, where anybody heeds it. It says how long it is about to sleep
  // before it looks at the phase: either it sees kOn, or we see that it sleeps.
  if (state.agent_wakes_ns.load() > now + kLeaseNs / 2 &&
      gpu.board().header().attention.load(std::memory_order_relaxed) != 0) {
    state.agent_wakes_ns.store(0);
    gpu.TellAgent();
    wakes->agents.Add(gpu.index());
  }
  // A process that may ask nobody itself waits for the daemon to do so: that is not to wait for the
  // launch.
  if (!gpu.may_ask()) sched::WakeSleepers(gpu.board(), std::exchange(*wakes, {}));
  return true;
}

// Victims that leave only as many SMs as the burst needed so far are to leave more.
void NeedMoreSms(GpuBoard& gpu, uint32_t sms, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  uint32_t before = state.sms.load(std::memory_order_relaxed);
  while (before < sms && !state.sms.compare_exchange_weak(before, sms)) {
  }
  std::atomic<uint32_t>& wanted = gpu.slot().sms_wanted;
  uint32_t published = wanted.load();
  while (published < sms && !wanted.compare_exchange_weak(published, sms)) {
  }
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = LeaseFor(gpu, 0)}, gpu.OnBoard(now_ns));
}

void End(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (gpu.has_left() || !Enter(state, Phase::kOn)) return;
  // On the program's thread, on its way out of a synchronising call.
  if (!sched::ReleaseDemand(gpu.board(), gpu.index(), gpu.OnBoard(now_ns)) &&
      gpu.board().header().attention.load() != 0) {
    sched::RingBell(gpu.board().header());
  }
  // Idle it would share the GPU with whoever comes.
  if (gpu.board().header().attention.load() != 0) tasks::AskToLeave(gpu);
  state.time_per_launch.Note(state.begun_ns.load(std::memory_order_relaxed), now_ns,
                             state.launches.load(std::memory_order_relaxed) -
                                 state.begun_launches.load(std::memory_order_relaxed) + 1);
  state.ended_ns.store(now_ns, std::memory_order_relaxed);
  state.stream.store(kNoStream, std::memory_order_relaxed);
  state.phase.store(Phase::kNone);
}

// A launch counts itself before it looks at the phase: either we see it here, or it sees kNone.
void EndUnlessLaunched(GpuBoard& gpu, uint64_t launches, uint64_t now_ns) {
  End(gpu, now_ns);
  if (gpu.demand.launches.load() == launches || gpu.has_left()) return;
  ForEachContext([&](PreemptContext& context) {
    if (context.gpu != &gpu) return;
    sched::Wakes wakes;
    (void)Begin(context, kManyStreams, nullptr, 0, runtime::kAllSms, &wakes);
    sched::WakeSleepers(gpu.board(), wakes);
  });
}

// Markers are words of mapped memory that streams write when they get there, one for each stream of
// a burst.
bool MakeMarkerWords(PreemptContext* context) {
  if (context->markers_device != 0) return true;
  void* words = context->markers;
  context->markers_device = RegisterKept(&words, kMarkedStreams * sizeof(uint32_t));
  context->markers = static_cast<uint32_t*>(words);
  return context->markers_device != 0;
}

// A per-thread stream has no handle that another thread could name it by. A marker on the legacy
// stream would come between the blocking streams of the burst.
bool CanMark(const DemandState& state, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const BurstStream& one = state.burst[i];
    const bool is_legacy = one.id.load(std::memory_order_relaxed) == 0;
    const bool has_name = is_legacy ? count == 1 : reinterpret_cast<uintptr_t>(one.handle) > 2;
    if (!has_name || one.context == nullptr || one.context->outstanding.load() != 0 ||
        MayBeInDriver(*one.context) ||
        one.context->state.load() == PreemptContext::State::kDead) {
      return false;
    }
  }
  return count != 0;
}

bool PutMarker(const DemandState& state, uint32_t index) {
  const BurstStream& one = state.burst[index];
  const auto write = CUPOLA_CALL_REAL(cuStreamWriteValue32_v2, PFN_cuStreamWriteValue32_v11070);
  if (TakeContext(one.context->context) != CUDA_SUCCESS || !MakeMarkerWords(one.context)) {
    return false;
  }
  const bool is_legacy = one.id.load(std::memory_order_relaxed) == 0;
  const CUstream handle = is_legacy ? CU_STREAM_LEGACY : one.handle;
  return write(handle, one.context->markers_device + index * sizeof(uint32_t), state.marker, 0) ==
         CUDA_SUCCESS;
}

// Whether what streams get now may wait at a gate, and whoever waits for that: there is one that has
// not been seen to be behind them, and it is closed.
bool IsHeldAtGates(const GpuBoard& gpu) {
  const DemandState& state = gpu.demand;
  return state.gated_launches.load() > state.ended_launches.load() && GatesMayHold(gpu) &&
         !sched::GateIsToBeOpen(gpu.slot());
}

// Once a burst: quiet since the last look, on streams that have room and do not capture. Tasks are
// in no stream: not before their MasterKernel has left. Not at closed gates, where a thread of the
// program may come to wait in the driver just then and keep the agent there.
void PutMarkers(GpuBoard& gpu, uint64_t launches) {
  DemandState& state = gpu.demand;
  if (state.returned.load() != launches || open_captures.load() != 0) return;
  if (IsHeldAtGates(gpu)) return;
  if (tasks::HasWorkOn(gpu)) return;
  const MutexLock lock(state.marker_mutex);
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  if (count > kMarkedStreams || !CanMark(state, count)) return;
  ++state.marker;
  for (uint32_t i = 0; i < count; ++i) {
    if (PutMarker(state, i)) continue;
    state.refused_launches = launches;  // not again and again: each takes room of a stream
    return;
  }
  state.marked_launches = launches;
  Count(counters.markers);
}

// What the markers that were put last say.
enum class Reached : uint8_t { kAll, kNotYet, kUnknown };

Reached LookAtMarkers(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);  // the words end with their context
  Reached reached = Reached::kAll;
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    const PreemptContext* const context = state.burst[i].context;
    if (context == nullptr || context->markers_device == 0) return Reached::kUnknown;
    if (__atomic_load_n(&context->markers[i], __ATOMIC_ACQUIRE) != state.marker) {
      reached = Reached::kNotYet;
    }
  }
  return reached;
}

// Kernels that faulted never reach a marker; every call of their context tells so.
bool AreWell(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);
  const auto ask = CUPOLA_CALL_REAL(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020);
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    PreemptContext* const context = state.burst[i].context;
    if (context == nullptr) return false;
    if (MayBeInDriver(*context)) continue;  // its own call tells
    if (TakeContext(context->context) != CUDA_SUCCESS) return false;
    size_t free = 0, total = 0;
    const bool is_ready = context->state.load() == PreemptContext::State::kReady;
    if (is_ready ? !IsWell(*context) : ask(&free, &total) != CUDA_SUCCESS) return false;
  }
  return true;
}

// Whether work is under way that nobody has been seen to wait for.
bool IsAtWork(GpuBoard& gpu, bool was_quiet, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  bool has_guarded = false, has_call = false;
  ForEachContext([&](PreemptContext& context) {
    if (context.gpu != &gpu) return;
    has_guarded |= context.outstanding.load() != 0;
    has_call |= MayBeInDriver(context);
  });
  // What is held by others has its time yet to come.
  const bool is_busy = has_guarded || !was_quiet || tasks::HasWorkOn(gpu);
  if (is_busy || gpu.requests() != 0) state.quiet_since_ns = now_ns;
  if (is_busy) return true;
  if (now_ns - state.quiet_since_ns > settings.demand_limit_ns) return false;
  const uint64_t launches = state.seen_launches;
  if (state.returned.load() != launches) return true;  // a launch waits for room
  // It gets no markers now.
  const bool goes_unmarked = has_call || IsHeldAtGates(gpu);
  if (goes_unmarked && state.marked_launches != launches) {
    return state.ended_launches.load() < launches;
  }
  return state.marked_launches == launches && LookAtMarkers(state) == Reached::kNotYet &&
         AreWell(state);
}

}  // namespace

// A marker that is on its way is reached nevertheless.
void ForgetStreamOfDemand(PreemptContext& context, CUstream stream) noexcept {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return;
  DemandState& state = context.gpu->demand;
  const MutexLock lock(state.marker_mutex);
  for (BurstStream& one : state.burst) {
    if (one.handle == stream) one.handle = nullptr;
  }
}

void ForgetContextOfDemand(PreemptContext& context) noexcept {
  DemandState& state = context.gpu->demand;
  const MutexLock lock(state.marker_mutex);
  for (BurstStream& one : state.burst) {
    if (one.context != &context) continue;
    one.handle = nullptr;
    one.context = nullptr;
  }
}

sched::Wakes NoteDemand(PreemptContext& context, uint64_t stream, CUstream handle,
                        uint64_t predicted_ns, uint32_t sms) noexcept {
  DemandState& state = context.gpu->demand;
  state.launches.fetch_add(1);
  sched::Wakes wakes;
  if (context.gpu->has_left()) [[unlikely]]
    return wakes;
  if (state.phase.load() != Phase::kOn &&
      Begin(context, stream, handle, predicted_ns, sms, &wakes)) {
    return wakes;
  }
  if (state.stream.load(std::memory_order_relaxed) != stream) {
    state.stream.store(kManyStreams, std::memory_order_relaxed);
    AddStream(state, context, stream, handle);
    sms = runtime::kAllSms;
  } else {  // the first, and the only one so far
    state.burst[0].launched.store(state.launches.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  }
  state.end_at_ns.store(0, std::memory_order_relaxed);
  const uint64_t now = NowNs();
  if (state.sms.load(std::memory_order_relaxed) < sms) NeedMoreSms(*context.gpu, sms, now);
  // Signed: the agent may have renewed it since.
  const auto age_ns = static_cast<int64_t>(now - state.renewed_ns.load(std::memory_order_relaxed));
  if (age_ns < static_cast<int64_t>(kLeaseNs / 4)) return wakes;
  state.renewed_ns.store(now, std::memory_order_relaxed);
  sched::UpdateDemand(context.gpu->board(), context.gpu->index(),
                      {.remaining_ns = predicted_ns,
                       .lease_ns = LeaseFor(*context.gpu, predicted_ns),
                       .sms = state.sms.load(),
                       .overhead_ns = context.gpu->overhead_ns()},
                      context.gpu->OnBoard(now));
  return wakes;
}

SyncPoint BeforeSync(PreemptContext* context, uint64_t stream, bool whole_context) noexcept {
  if (context == nullptr) return {};
  return {context, context->gpu->demand.launches.load(), stream, whole_context};
}

void AfterSync(const SyncPoint& point) noexcept {
  if (point.context == nullptr) return;
  if (point.context->outstanding.load() != 0) Harvest(*point.context);
  GpuBoard& gpu = *point.context->gpu;
  DemandState& state = gpu.demand;
  const uint64_t burst = state.stream.load(std::memory_order_relaxed);
  const bool nothing_left =
      point.whole_context ? IsAllOf(*point.context)
                          : burst == point.stream ||
                                (burst == kManyStreams && AllAreWaitedFor(state, point));
  if (!nothing_left || state.launches.load() != point.launches) return;
  state.ended_launches.store(point.launches);
  if (state.phase.load() != Phase::kOn) return;
  const uint64_t now = NowNs();
  if (state.gaps_are_short.load(std::memory_order_relaxed)) {
    state.end_launches.store(point.launches, std::memory_order_relaxed);
    state.end_at_ns.store(now + settings.short_gap_ns);
    // It may be asleep for long; where nobody else takes part it is in no hurry either.
    if (IsHeeded(gpu)) gpu.WakeAgent();
    return;  // the agent ends it, unless a launch comes first
  }
  EndUnlessLaunched(gpu, point.launches, now);
}

uint64_t DemandTickNs(GpuBoard& gpu) noexcept {
  if (gpu.demand.phase.load() != Phase::kOn) {
    // It begins without a word to the agent, which is to be there when a burst ends unnoticed.
    // (Where the daemon heeds it, it begins with a word to an agent that sleeps.)
    const uint64_t ended = gpu.demand.ended_ns.load(std::memory_order_relaxed);
    const bool lately = ended != 0 && MonotonicNs() - ended < kLatelyNs;
    return lately && gpu.may_ask() ? kTickNs : UINT64_MAX;
  }
  // Nobody waits for it to end: only the lease is to be looked after.
  if (!IsHeeded(gpu)) return kIdleTickNs;
  return gpu.demand.gaps_are_short.load(std::memory_order_relaxed) ? settings.short_gap_ns
                                                                   : kTickNs;
}

void LookAfterDemand(GpuBoard& gpu, uint64_t now_ns) noexcept {
  DemandState& state = gpu.demand;
  if (state.phase.load() != Phase::kOn) return;
  const uint64_t launches = state.launches.load();
  const bool quiet = launches == state.seen_launches;
  state.seen_launches = launches;
  if (!quiet) state.quiet_since_ns = now_ns;
  const uint64_t end_at = state.end_at_ns.load();
  const bool lingers = end_at != 0;
  if (lingers && now_ns >= end_at) {
    return EndUnlessLaunched(gpu, state.end_launches.load(std::memory_order_relaxed), now_ns);
  }
  const bool is_marked = quiet && state.marked_launches == launches;
  if (is_marked && LookAtMarkers(state) == Reached::kAll) {
    state.ended_launches.store(launches);
    return EndUnlessLaunched(gpu, launches, now_ns);
  }
  if (quiet && !is_marked && !lingers && state.refused_launches != launches) {
    PutMarkers(gpu, launches);
  }
  // Before it ends: the daemon is there at that moment, and lets the others go.
  const uint64_t lease_ns = LeaseFor(gpu, 0);
  const uint64_t until_ns = gpu.slot().demand_until_ns.load();
  const uint64_t board_now_ns = gpu.OnBoard(now_ns);
  if (board_now_ns + lease_ns / 2 < until_ns) return;
  if (!IsAtWork(gpu, quiet, now_ns)) {
    if (board_now_ns >= until_ns) EndUnlessLaunched(gpu, launches, now_ns);
    return;
  }
  state.renewed_ns.store(now_ns, std::memory_order_relaxed);
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = lease_ns}, board_now_ns);
}

void DropDemandAtExit() noexcept {
  ForEachContext([&](PreemptContext& context) { End(*context.gpu, NowNs()); });
}

}  // namespace cupola::intercept::preempt
