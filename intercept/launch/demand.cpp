#include "intercept/launch/demand.h"

#include <algorithm>
#include <utility>

#include "intercept/facts/streams.h"
#include "intercept/launch/agent_context.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/patient_wait.h"

namespace cupola::intercept {
namespace {

using Phase = DemandState::Phase;

// The lease if no time is predicted. It is several times what kernels take: it rarely matters, since
// a synchronising call shows the end of most demands.
constexpr uint64_t kLeaseNs = 20'000'000;
// How long the agent sleeps between two looks at demand: where others wait for the demand to end, and
// where nobody does. A process without demand counts as one that soon has it again for kLatelyNs.
constexpr uint64_t kTickNs = 1'000'000, kIdleTickNs = 10'000'000;
constexpr uint64_t kLatelyNs = 1'000'000'000;

uint64_t LeaseFor(const GpuBoard& gpu, uint64_t predicted_ns) {
  return std::max(predicted_ns * 2, gpu.requests() != 0 ? kHeldLeaseNs : kLeaseNs);
}

// Whether anybody waits for this process's demand to end: the processes that it asks itself, or the
// daemon, which holds others while the demand lasts.
bool IsHeeded(const GpuBoard& gpu) {
  return gpu.may_ask() || gpu.board().header().attention.load(std::memory_order_relaxed) != 0;
}

// Claims the change of demand for the calling thread, if the phase is `from`. One thread at a time
// changes demand: a thread that wants to begin it meanwhile sees kChanging and waits a moment, and one
// that wants to end it leaves it alone.
bool Enter(DemandState& state, Phase from) {
  Phase phase = from;
  return state.phase.compare_exchange_strong(phase, Phase::kChanging);
}

// Adds a stream to the burst. kManyStreams, which stands for streams that cannot be told apart, makes
// the list count as full, so that the burst gets no markers.
void AddStreamLocked(DemandState& state, LaunchContext& context, uint64_t stream,
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

void AddStream(DemandState& state, LaunchContext& context, uint64_t stream, CUstream handle) {
  if (state.streams.load(std::memory_order_acquire) > kMarkedStreams) return;  // no markers anyway
  if (BurstStream* const known = FindStream(state, stream); known != nullptr) {
    known->launched.store(state.launches.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
    return;
  }
  const MutexLock lock(state.marker_mutex);
  if (FindStream(state, stream) == nullptr) AddStreamLocked(state, context, stream, handle);
}

// Begins demand with a launch on `stream`, or for kManyStreams with launches on streams that are not
// told apart. False: another thread has begun it.
bool Begin(LaunchContext& context, uint64_t stream, CUstream handle, uint64_t predicted_ns,
           uint32_t sms, sched::Wakes* wakes) {
  GpuBoard& gpu = *context.gpu;
  DemandState& state = gpu.demand;
  for (PatientWait wait; !Enter(state, Phase::kNone); wait.Pause()) {
    if (state.phase.load() == Phase::kOn) return false;
  }
  const uint64_t now = NowNs();
  const uint64_t ended = state.ended_ns.load(std::memory_order_relaxed);
  state.gaps_are_short.store(ended != 0 && now - ended < preemption_settings.short_gap_ns,
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
  Count(launch_counters.demands);
  state.sms.store(sms, std::memory_order_relaxed);
  if (gpu.has_kernel_rules()) (void)gpu.PublishKernel();  // the daemon is rung for below
  *wakes = sched::BeginDemand(gpu.board(), gpu.index(),
                              {.remaining_ns = predicted_ns,
                               .lease_ns = LeaseFor(gpu, predicted_ns),
                               .sms = sms,
                               .overhead_ns = gpu.overhead_ns()},
                              gpu.OnBoard(now));
  state.phase.store(Phase::kOn);
  // The agent renews the lease if anybody heeds it. Before it sleeps for longer than a lease may wait,
  // it stores until when (agent_wakes_ns) and then reads the phase. This thread has stored kOn and now
  // reads that time. All four are sequentially consistent: either the agent sees kOn, or we see here
  // that it sleeps.
  if (state.agent_wakes_ns.load() > now + kLeaseNs / 2 &&
      gpu.board().header().attention.load(std::memory_order_relaxed) != 0) {
    state.agent_wakes_ns.store(0);
    gpu.TellAgent();
    wakes->agents.Add(gpu.index());
  }
  // A process that may ask nobody itself needs the daemon to do so. The daemon is woken now, so that
  // it need not wait for the launch.
  if (!gpu.may_ask()) sched::WakeSleepers(gpu.board(), std::exchange(*wakes, {}));
  return true;
}

// The burst needs more SMs than before: processes that left only as many as it needed so far must
// leave more.
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

// Ends demand, if there is any. A launch that comes meanwhile waits in Begin, and begins demand anew.
void End(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (gpu.has_left() || !Enter(state, Phase::kOn)) return;  // plant: never_ended
  // This runs on the program's thread as a synchronising call returns. ReleaseDemand spares it the
  // system call of the bell if the agent of a process that was let go will ring.
  if (!sched::ReleaseDemand(gpu.board(), gpu.index(), gpu.OnBoard(now_ns)) &&
      gpu.board().header().attention.load() != 0) {
    sched::RingBell(gpu.board().header());
  }
  // A MasterKernel without tasks would still share the GPU with whoever comes next.
  if (gpu.board().header().attention.load() != 0) resident.tasks.ask_to_leave(gpu);
  state.time_per_launch.Note(state.begun_ns.load(std::memory_order_relaxed), now_ns,
                             state.launches.load(std::memory_order_relaxed) -
                                 state.begun_launches.load(std::memory_order_relaxed) + 1);
  state.ended_ns.store(now_ns, std::memory_order_relaxed);
  state.stream.store(kNoStream, std::memory_order_relaxed);
  state.phase.store(Phase::kNone);
}

// Ends demand, as was decided when the process had made `launches` launches. Begins it again at once if
// the process has launched since: that launch may have found demand on, and so not have begun it.
// A launch counts itself before it reads the phase (both sequentially consistent): either we see the
// launch here, or it sees kNone and begins demand.
void EndUnlessLaunched(GpuBoard& gpu, uint64_t launches, uint64_t now_ns) {
  End(gpu, now_ns);
  if (gpu.demand.launches.load() == launches || gpu.has_left()) return;
  ForEachContext([&](LaunchContext& context) {
    if (context.gpu != &gpu) return;
    sched::Wakes wakes;
    (void)Begin(context, kManyStreams, nullptr, 0, runtime::kAllSms, &wakes);
    sched::WakeSleepers(gpu.board(), wakes);
  });
}

// A marker is a stream write to a word of mapped memory, which the stream makes when it gets there.
// There is one word for each stream of a burst, at the stream's index in DemandState::burst. From here
// to IsAtWork everything runs on the agent's thread.
bool MakeMarkerWords(LaunchContext* context) {
  if (context->markers_device != 0) return true;
  void* words = context->markers;
  context->markers_device = RegisterKept(&words, kMarkedStreams * sizeof(uint32_t));
  context->markers = static_cast<uint32_t*>(words);
  return context->markers_device != 0;
}

// Whether all streams of the burst can get markers. A per-thread stream cannot: it has no handle that
// another thread could use. The legacy stream can only if it is the only one: a marker there would
// come between the blocking streams of the burst.
bool CanMark(const DemandState& state, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const BurstStream& one = state.burst[i];
    const bool is_legacy = one.id.load(std::memory_order_relaxed) == 0;
    const bool has_name = is_legacy ? count == 1 : reinterpret_cast<uintptr_t>(one.handle) > 2;
    if (!has_name || one.context == nullptr || one.context->outstanding.load() != 0 ||
        MayBeInDriver(*one.context) ||  // plant: marked_in_call
        one.context->state.load() == LaunchContext::State::kDead) {
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

// Whether work that is put on streams now may wait at a gate: the gate is closed, and the streams
// are not known to have passed the last gate that was put. A thread that waits for such work is held
// as well.
bool IsHeldAtGates(const GpuBoard& gpu) {
  const DemandState& state = gpu.demand;
  return state.gated_launches.load() > state.ended_launches.load() && GatesMayHold(gpu) &&
         !sched::GateIsToBeOpen(gpu.slot());
}

// Puts the markers of a burst, once, when nothing was launched since the last look. Streams must have
// room and not capture. Tasks are in no stream, so there are no markers before their MasterKernel has
// left. There are none at closed gates either: a thread of the program could come to wait in the
// driver at that moment, and the agent would wait behind it.
void PutMarkers(GpuBoard& gpu, uint64_t launches) {
  DemandState& state = gpu.demand;
  if (state.returned.load() != launches || open_captures.load() != 0) return;
  if (IsHeldAtGates(gpu)) return;
  if (resident.tasks.have_work_on(gpu)) return;
  const MutexLock lock(state.marker_mutex);
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  if (count > kMarkedStreams || !CanMark(state, count)) return;
  ++state.marker;
  for (uint32_t i = 0; i < count; ++i) {
    if (PutMarker(state, i)) continue;
    state.refused_launches = launches;  // no second try: each marker takes room of a stream
    return;
  }
  state.marked_launches = launches;  // plant: marker_forgotten
  Count(launch_counters.markers);
}

// Whether the markers that were put last have been reached.
enum class Reached : uint8_t { kAll, kNotYet, kUnknown };

Reached LookAtMarkers(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);  // the words end with their context
  Reached reached = Reached::kAll;
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    const LaunchContext* const context = state.burst[i].context;
    if (context == nullptr || context->markers_device == 0) return Reached::kUnknown;
    if (__atomic_load_n(&context->markers[i], __ATOMIC_ACQUIRE) != state.marker) {
      reached = Reached::kNotYet;
    }
  }
  return reached;
}

// Whether all contexts of the burst still work. The streams of a kernel that faulted never reach a
// marker, but every call in its context returns an error.
bool AreWell(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);
  const auto ask = CUPOLA_CALL_REAL(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020);
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    LaunchContext* const context = state.burst[i].context;
    if (context == nullptr) return false;
    if (MayBeInDriver(*context)) continue;  // the program's own call returns the error
    if (TakeContext(context->context) != CUDA_SUCCESS) return false;
    size_t free = 0, total = 0;
    const bool is_ready = context->state.load() == LaunchContext::State::kReady;
    if (is_ready ? !resident.guarded.is_well(*context) : ask(&free, &total) != CUDA_SUCCESS) return false;
  }
  return true;
}

// Whether work of the burst may still be under way, as far as the agent can tell.
bool IsAtWork(GpuBoard& gpu, bool was_quiet, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  bool has_guarded = false, has_call = false;
  ForEachContext([&](LaunchContext& context) {
    if (context.gpu != &gpu) return;
    has_guarded |= context.outstanding.load() != 0;
    has_call |= MayBeInDriver(context);
  });
  // A process that others ask to yield still waits for its turn: its quiet time does not count.
  const bool is_busy = has_guarded || !was_quiet || resident.tasks.have_work_on(gpu);
  if (is_busy || gpu.requests() != 0) state.quiet_since_ns = now_ns;
  if (is_busy) return true;
  if (now_ns - state.quiet_since_ns > preemption_settings.demand_limit_ns) return false;
  const uint64_t launches = state.seen_launches;
  if (state.returned.load() != launches) return true;  // a launch waits for room
  // In these two cases PutMarkers puts no markers.
  const bool goes_unmarked = has_call || IsHeldAtGates(gpu);
  if (goes_unmarked && state.marked_launches != launches) {
    return state.ended_launches.load() < launches;
  }
  return state.marked_launches == launches && LookAtMarkers(state) == Reached::kNotYet &&
         AreWell(state);
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
      Begin(context, stream, handle, predicted_ns, sms, &wakes)) {
    return wakes;
  }
  if (state.stream.load(std::memory_order_relaxed) != stream) {
    state.stream.store(kManyStreams, std::memory_order_relaxed);
    AddStream(state, context, stream, handle);
    sms = runtime::kAllSms;
  } else {  // the first stream, and the only one so far
    state.burst[0].launched.store(state.launches.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  }
  state.end_at_ns.store(0, std::memory_order_relaxed);
  const uint64_t now = NowNs();
  if (state.sms.load(std::memory_order_relaxed) < sms) NeedMoreSms(*context.gpu, sms, now);
  // Signed: the agent may have renewed the lease after `now` was read.
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

SyncPoint BeforeSync(LaunchContext* context, uint64_t stream, bool whole_context) noexcept {
  if (context == nullptr) return {};
  return {context, context->gpu->demand.launches.load(), stream, whole_context};
}

void AfterSync(const SyncPoint& point) noexcept {
  if (point.context == nullptr) return;
  if (point.context->outstanding.load() != 0) resident.guarded.harvest(*point.context);
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
    state.end_at_ns.store(now + preemption_settings.short_gap_ns);
    // The agent may be asleep for long. If nobody heeds the demand there is no hurry to wake it.
    if (IsHeeded(gpu)) gpu.WakeAgent();
    return;  // the agent ends it, unless a launch comes first
  }
  EndUnlessLaunched(gpu, point.launches, now);
}

uint64_t DemandTickNs(GpuBoard& gpu) noexcept {
  if (gpu.demand.phase.load() != Phase::kOn) {
    // A burst begins without waking the agent, but the agent must notice its end. So it looks often
    // while bursts were seen lately. (If the daemon heeds demand, Begin wakes a sleeping agent.)
    const uint64_t ended = gpu.demand.ended_ns.load(std::memory_order_relaxed);
    const bool lately = ended != 0 && MonotonicNs() - ended < kLatelyNs;
    return lately && gpu.may_ask() ? kTickNs : UINT64_MAX;
  }
  // Nobody waits for demand to end: the agent only renews the lease.
  if (!IsHeeded(gpu)) return kIdleTickNs;
  return gpu.demand.gaps_are_short.load(std::memory_order_relaxed) ? preemption_settings.short_gap_ns
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
  const bool lingers = end_at != 0;  // the grace period is under way
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
  // The lease is renewed before it runs out: at that moment the daemon would let the others go.
  const uint64_t lease_ns = LeaseFor(gpu, 0);
  const uint64_t until_ns = gpu.slot().demand_until_ns.load();
  const uint64_t board_now_ns = gpu.OnBoard(now_ns);
  if (board_now_ns + lease_ns / 2 < until_ns) return;
  if (!IsAtWork(gpu, quiet, now_ns)) {
    if (board_now_ns >= until_ns) EndUnlessLaunched(gpu, launches, now_ns);
    return;
  }
  // plant: never_renewed
  state.renewed_ns.store(now_ns, std::memory_order_relaxed);
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = lease_ns}, board_now_ns);
  // end plant: never_renewed
}

void DropDemandAtExit() noexcept {
  ForEachContext([&](LaunchContext& context) { End(*context.gpu, NowNs()); });
}

}  // namespace cupola::intercept
