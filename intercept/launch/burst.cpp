#include "intercept/launch/burst.h"

#include <algorithm>
#include <utility>

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/patient_wait.h"

namespace cupola::intercept::burst {
namespace {

using Phase = DemandState::Phase;

// The lease if no time is predicted. It is several times what kernels take: it rarely matters, since
// a synchronising call shows the end of most demands.
constexpr uint64_t kLeaseNs = 20'000'000;

// Claims the change of demand for the calling thread, if the phase is `from`. One thread at a time
// changes demand: a thread that wants to begin it meanwhile sees kChanging and waits a moment, and one
// that wants to end it leaves it alone.
bool Claim(DemandState& state, Phase from) {
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

// When a burst that begins now is to ask. Only a process that nobody else may ask chooses: another one takes its turn by
// its demand. Tasks are not waited for by the calls that a choice is learnt from.
AskAt WhenToAsk(GpuBoard& gpu) {
  const AskAt chosen =
      preemption_settings.ask_at ? *preemption_settings.ask_at : gpu.demand.ask_choice.now();
  if (chosen == AskAt::kFirstLaunch || !gpu.may_ask() || gpu.may_be_asked() || resident.tasks.have_work_on(gpu)) {
    return AskAt::kFirstLaunch;
  }
  return chosen;
}

// Puts the burst's demand on the board. The caller has set the phase to kChanging.
[[nodiscard]] sched::Wakes AskOthers(GpuBoard& gpu, uint64_t predicted_ns, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  state.renewed_ns.store(now_ns, std::memory_order_relaxed);
  state.asks.store(true);  // before `sms` is read: a launch that needs more stores it, and then reads `asks`
  Count(launch_counters.demands);
  if (gpu.has_kernel_rules()) (void)gpu.PublishKernel();  // BeginDemand rings for the daemon
  return sched::BeginDemand(gpu.board(), gpu.index(),
                            {.remaining_ns = predicted_ns,
                             .lease_ns = LeaseFor(gpu, predicted_ns),
                             .sms = state.sms.load(),
                             .overhead_ns = gpu.overhead_ns()},
                            gpu.OnBoard(now_ns));
}

}  // namespace

uint64_t LeaseFor(const GpuBoard& gpu, uint64_t predicted_ns) {
  return std::max(predicted_ns * 2, gpu.requests() != 0 ? kHeldLeaseNs : kLeaseNs);
}

bool IsHeeded(const GpuBoard& gpu) {
  return gpu.may_ask() || gpu.board().header().attention.load(std::memory_order_relaxed) != 0;
}

BurstStream* FindStream(DemandState& state, uint64_t stream) {
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count && i < kMarkedStreams; ++i) {
    if (state.burst[i].id.load(std::memory_order_relaxed) == stream) return &state.burst[i];
  }
  return nullptr;
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

bool Enter(GpuBoard& gpu) {
  if (gpu.has_left() || !Claim(gpu.demand, Phase::kOn)) return false;  // plant: never_ended
  return true;
}

void AskLate(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (!Enter(gpu)) return;
  sched::Wakes wakes;
  if (!state.asks.load()) {
    wakes = AskOthers(gpu, /*predicted_ns=*/0, now_ns);
    Count(launch_counters.late_demands);
  }
  state.phase.store(Phase::kOn);
  sched::WakeSleepers(gpu.board(), wakes);
}

bool Begin(LaunchContext& context, uint64_t stream, CUstream handle, uint64_t predicted_ns,
           uint32_t sms, sched::Wakes* wakes) {
  GpuBoard& gpu = *context.gpu;
  DemandState& state = gpu.demand;
  for (PatientWait wait; !Claim(state, Phase::kNone); wait.Pause()) {
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
  state.begun_ns.store(now, std::memory_order_relaxed);
  state.issued_since_ns.store(now, std::memory_order_relaxed);
  state.begun_launches.store(state.launches.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  state.end_at_ns.store(0, std::memory_order_relaxed);
  state.sms.store(sms, std::memory_order_relaxed);
  const AskAt ask_at = WhenToAsk(gpu);
  state.ask_at.store(ask_at, std::memory_order_relaxed);
  state.patience_ns.store(state.ask_choice.patience_ns(), std::memory_order_relaxed);
  state.waits_since_ns.store(0, std::memory_order_relaxed);
  state.asks.store(false, std::memory_order_relaxed);
  if (ask_at == AskAt::kFirstLaunch) *wakes = AskOthers(gpu, predicted_ns, now);
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

void NeedMoreSms(GpuBoard& gpu, uint32_t sms, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  uint32_t before = state.sms.load(std::memory_order_relaxed);
  while (before < sms && !state.sms.compare_exchange_weak(before, sms)) {
  }
  if (!state.asks.load()) return;
  std::atomic<uint32_t>& wanted = gpu.slot().sms_wanted;
  uint32_t published = wanted.load();
  while (published < sms && !wanted.compare_exchange_weak(published, sms)) {
  }
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = LeaseFor(gpu, 0)}, gpu.OnBoard(now_ns));
}

void EndEntered(GpuBoard& gpu, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  if (!state.asks.load()) Count(launch_counters.unasked);
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

void End(GpuBoard& gpu, uint64_t now_ns) {
  if (!Enter(gpu)) return;
  EndEntered(gpu, now_ns);
}

// A launch counts itself before it reads the phase (both sequentially consistent): either we see the
// launch here, or it sees kNone and begins a burst.
void BeginIfLaunched(GpuBoard& gpu, uint64_t launches) {
  if (gpu.demand.launches.load() == launches || gpu.has_left()) return;
  ForEachContext([&](LaunchContext& context) {
    if (context.gpu != &gpu) return;
    sched::Wakes wakes;
    (void)Begin(context, kManyStreams, nullptr, 0, runtime::kAllSms, &wakes);
    sched::WakeSleepers(gpu.board(), wakes);
  });
}

void EndUnlessLaunched(GpuBoard& gpu, uint64_t launches, uint64_t now_ns) {
  End(gpu, now_ns);
  BeginIfLaunched(gpu, launches);
}

}  // namespace cupola::intercept::burst
