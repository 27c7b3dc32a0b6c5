#include "intercept/preempt/agent.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <sched.h>
#include <sys/prctl.h>
#include <xmmintrin.h>

#include "intercept/launch/agent_context.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept::preempt {
namespace {

// How long the agent sleeps, or spins, between two looks, by what the last look found.
constexpr uint64_t kIdleNs = 100'000'000;       // nothing under way: only the daemon is watched
constexpr uint64_t kLeftNs = 1'000'000;         // the process has no board slot any more
// Everything has stopped, and whoever asked may die. While nothing changes the agent looks ever more
// rarely: if many processes wait for their turn, their looks would otherwise take the processors that
// the running one needs.
constexpr uint64_t kHeldNs = 10'000'000, kLongestHeldNs = 40'000'000;
static_assert(kLongestHeldNs < kHeldLeaseNs / 2, "the lease is renewed at these looks");
constexpr uint64_t kAgentSpinNs = 300'000;  // stopped: a high-priority kernel is often shorter
constexpr uint64_t kLookNs = 20'000, kLongestLookNs = 500'000;  // launches may stop or have stopped
constexpr uint64_t kPlainLookNs = 250'000;  // asked, with plain launches under way; rarer with time
constexpr uint64_t kLongestPlainLookNs = 10'000'000;
// The process was asked or let go a short time ago (hot_ns_), so that it is likely to be let go or
// asked again soon. A sleeping thread takes 60 to 250 us to wake on a virtual machine, longer than
// most kernels for which others stop it. So the agent looks without sleeping, if the process has
// enough processors.
constexpr uint64_t kHotLookNs = 2'000;
constexpr int kProcessorsToSpin = 4;
constexpr uint64_t kAgentAskEveryNs = 10'000'000;  // between questions whether contexts still work

/// What one look at all contexts of a board found.
struct Look {
  uint32_t running = 0;   ///< launches that are not complete
  uint32_t yielded = 0;   ///< how many of these have left the SMs that they were asked to leave
  uint32_t doubtful = 0;  ///< how many of these may stop yet, or may have stopped unseen
  bool oldest_stopped = false;  ///< in some context the oldest has stopped; later ones mostly wait for it
  bool oldest_yielded = false;  ///< in some context the oldest counts in `yielded`
  uint32_t stopped = 0;   ///< how many of these have no physical launch under way or at a gate
  bool acted = false;     ///< something was resumed
};

enum class ResumeWhen : uint8_t {
  kNow,
  kGateOpens,  ///< behind a gate: then the process that lets it go need not wait for the agent's
               ///< driver calls
};

class Agent {
 public:
  explicit Agent(GpuBoard* gpu) : gpu_(*gpu), had_gates_(gpu->begins_with_gates) {}
  [[noreturn]] void Run();

 private:
  Look LookAtAll(bool was_asked);
  void LookAt(LaunchContext& context, bool was_asked, Look* look);
  bool LookAt(LaunchContext& context, LaunchSlot& slot, uint32_t bound, Look* look);
  void AskWhetherWell(LaunchContext& context);
  void OpenLeftGate();
  void LookAtGates(bool was_told, bool whole);
  bool PlainIsOver() const;
  bool IsHeldAtGate() const;
  void ResumeAtGate(LaunchContext& context);
  void Publish(const Look& look, uint64_t requests, bool is_answer);
  void Sleep(const Look& look, uint64_t requests, uint32_t seen);
  void SleepHeld(uint32_t seen);
  void Spin(uint32_t seen, uint64_t until_ns);

  GpuBoard& gpu_;
  uint64_t polled_ns_ = 0;         ///< last GpuBoard::Poll
  uint64_t stopped_since_ns_ = 0;  ///< since when launches wait because the whole GPU is asked for; 0 = they do not
  uint64_t asked_ns_ = 0;  ///< when the process was last asked, or let go
  uint64_t whole_ns_ = 0;  ///< since when it is asked for the whole GPU; 0 = it is not, or not known
  uint64_t hot_ns_ = 0;    ///< for how long after asked_ns_ the agent does not sleep
  uint64_t look_ns_ = kLookNs;  ///< time to the next look while launches are doubtful
  uint64_t held_ns_ = kHeldNs;  ///< time to the next look while the process is asked and has stopped
  uint64_t plain_look_ns_ = kPlainLookNs;  ///< the same while plain launches have not ended
  uint64_t asked_well_ns_ = 0;      ///< when contexts were last asked whether they still work
  bool had_gates_;                  ///< gates were put before the process was asked
  uint64_t closed_ns_ = 0;          ///< since when the gate is closed; 0 = it is open
  bool has_told_time_to_gate_ = false;  ///< since then
  uint64_t plain_when_closed_ = 0;  ///< the last plain launch that had gone out by then
};

// Finds a helper stream for a resume, one that is not behind another physical launch of the same
// launch. kNoHelper: there is none until one of them ends.
uint32_t HelperFor(LaunchContext& context, const LaunchSlot& slot) {
  uint32_t helper = 0;
  {
    const MutexLock lock(context.slots_mutex);
    helper = LaunchSlots::FreeHelper(slot);  // plant: behind_another
  }
  return helper < context.helper_count || AddHelper(context) ? helper : kNoHelper;
}

// Resumes a launch that has stopped. The slot stays with its launch while slots_mutex is not held,
// because the physical launch counts as under way.
bool Resume(LaunchContext& context, LaunchSlot* slot, ResumeWhen when) {
  const bool is_gated = when == ResumeWhen::kGateOpens;
  const uint32_t helper = HelperFor(context, *slot);
  if (helper == kNoHelper) return false;
  uint32_t physical = kNoPhysical, workers = 0, passage = 0;
  {
    const MutexLock lock(context.slots_mutex);
    workers = context.slots.WorkersToResume(*slot);
    if (workers != 0) physical = context.slots.BeginPhysical(slot, workers, helper);
    if (physical == kNoPhysical) return false;
    if (is_gated) passage = context.slots.AddGate(slot, /*is_resume=*/true);
    const bool is_asked = !is_gated && context.gpu->requests() != 0;
    slot->looked_at_bound = is_asked ? context.gpu->sm_bound() : 0;
  }
  if (is_gated &&
      !GateResume(context, context.helpers[helper], context.slots.IndexOf(slot), passage)) {
    const MutexLock lock(context.slots_mutex);
    context.slots.CancelPhysical(slot, physical);
    slot->stopped = true;
    return false;
  }
  // Counted before the launch, because the program may end as soon as its kernel has. (Harvest counts
  // the resumes behind gates.)
  if (!is_gated) CountResumes(context, 1);
  const uint64_t begun_ns = MonotonicNs();
  const CUresult result = LaunchPhysical(context, *slot, physical);  // plant: arguments_forgotten
  if (result == CUDA_SUCCESS) {
    if (!is_gated) context.gpu->RecordResumeTime(MonotonicNs() - begun_ns);
    return true;
  }
  {
    const MutexLock lock(context.slots_mutex);
    context.slots.CancelPhysical(slot, physical);
  }
  // The driver took this launch once before: it refuses only if the context is beyond repair.
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"a preempted kernel cannot be resumed: error ", Decimal(result)});
  GiveUp(context);
  return false;
}

// Looks at one running launch that is asked to leave the SMs below `bound` (0: not asked). Returns
// whether it may be resumed.
bool Agent::LookAt(LaunchContext& context, LaunchSlot& slot, uint32_t bound, Look* look) {
  const LaunchSlots& slots = context.slots;
  if (slot.is_gated) {  // counts as stopped: none of its blocks has begun
    ++look->yielded;
    return false;
  }
  const bool has_ended = slot.live == 0;
  const uint32_t away = has_ended ? 0 : slots.WorkersAway(slot);
  if ((has_ended && !slot.stopped) || (away != 0 && !slot.gave_sms)) {
    Count(launch_counters.preemptions);
    gpu_.slot().preemptions.fetch_add(1, std::memory_order_relaxed);
  }
  if (has_ended && !slot.stopped) {
    slot.stopped_ns = MonotonicNs();
    if (slot.begun_ns < whole_ns_) gpu_.RecordStopTime(slot.stopped_ns - whole_ns_);
  }
  slot.stopped = has_ended;
  slot.gave_sms = has_ended || away != 0;
  look->yielded += slots.HasYielded(slot, bound, gpu_.sm_count());
  look->doubtful += slot.may_have_stopped && !has_ended;
  look->stopped += has_ended;
  // Workers leave one after the other. They are resumed together, once no more have left since the
  // last look.
  const bool all_have_left = has_ended || away == slot.away_seen;
  slot.away_seen = away;
  // If only some SMs are asked for, a launch that stopped as a whole can run on the others.
  const bool has_room = bound != runtime::kAllSms && has_ended;  // plant: no_room_beside
  return (bound == 0 || has_room) && all_have_left;  // plant: no_resume
}

void Agent::LookAt(LaunchContext& context, bool was_asked, Look* look) {
  if (context.gpu != &gpu_ || context.outstanding.load() == 0) return;
  Harvest(context);
  LaunchSlot* resume[kSlots];
  uint32_t count = 0;
  {
    const MutexLock lock(context.slots_mutex);
    if (was_asked) context.slots.MarkMayHaveStopped();
    const bool held = gpu_.requests() != 0;
    const uint32_t bound = held ? gpu_.sm_bound() : 0;
    const uint32_t first = look->running + 1;
    for (uint32_t i = 0; i < context.slots.in_use(); ++i) {
      LaunchSlot& slot = context.slots.used(i);
      if (slot.state != LaunchSlot::State::kRunning) continue;
      ++look->running;
      const uint32_t before = look->yielded;
      const bool may_resume = LookAt(context, slot, bound, look);
      look->oldest_stopped |= (slot.stopped || slot.is_gated) && look->running == first;
      look->oldest_yielded |= look->yielded != before && look->running == first;
      const bool wants_another = slot.wants_another && !held;
      if (!may_resume && !wants_another) continue;
      if (context.slots.WorkersToResume(slot) != 0) resume[count++] = &slot;
    }
  }
  if (count != 0) {
    // `stopped` is cleared before the launch runs again. Publish tells the waiting processes.
    if (gpu_.requests() == 0 && !gpu_.has_left()) gpu_.slot().stopped.store(0);
    OpenLeftGate();
    (void)TakeContext(context.context);
  }
  for (uint32_t i = 0; i < count; ++i) {
    look->acted |= Resume(context, resume[i], ResumeWhen::kNow);
  }
}

// Whether a resume behind a gate would wait there until nobody asks for the whole GPU. If processes
// share a context this is false: a gate would open later than the agent could launch.
bool Agent::IsHeldAtGate() const {
  return preemption_settings.gate_every != 0 && !gpu_.shares_context() && gpu_.requests() != 0 &&
         gpu_.sm_bound() == runtime::kAllSms && gpu_.slot().gate.load() == 0;
}

// Puts the resumes of stopped launches behind a gate. They count as stopped until their stream has
// passed it.
void Agent::ResumeAtGate(LaunchContext& context) {
  if (context.gpu != &gpu_ || context.outstanding.load() == 0 || !IsHeldAtGate()) return;
  if (MayBeInDriver(context)) return;  // resumed when nobody asks any more  // plant: resumed_in_call
  LaunchSlot* stopped[kSlots];
  uint32_t count = 0;
  {
    const MutexLock lock(context.slots_mutex);
    for (uint32_t i = 0; i < context.slots.in_use(); ++i) {
      LaunchSlot& slot = context.slots.used(i);
      const bool is_running = slot.state == LaunchSlot::State::kRunning;
      if (is_running && slot.stopped && slot.live == 0) stopped[count++] = &slot;
    }
  }
  if (count == 0) return;
  (void)TakeContext(context.context);
  for (uint32_t i = 0; i < count; ++i) Resume(context, stopped[i], ResumeWhen::kGateOpens);
}

// Gives up a context that faulted: its launches would never be complete, and its demand would never
// end.
void Agent::AskWhetherWell(LaunchContext& context) {
  if (context.gpu != &gpu_ || context.outstanding.load() == 0) return;
  if (context.state.load() != LaunchContext::State::kReady || MayBeInDriver(context)) return;  // plant: asked_in_call
  (void)TakeContext(context.context);
  (void)IsWell(context);
}

Look Agent::LookAtAll(bool was_asked) {
  const MutexLock lock(gpu_.agent_mutex);
  Look look;
  ForEachContext([&](LaunchContext& context) { LookAt(context, was_asked, &look); });
  if (gpu_.requests() == 0) {
    OpenLeftGate();
    if (!resident.tasks.go_on(gpu_)) ++look.doubtful;
  } else if (resident.tasks.are_on(gpu_)) {
    resident.tasks.hold(gpu_);
    ++look.running;
    ++look.doubtful;
  }
  const uint64_t now = MonotonicNs();
  if (look.running != 0 && now - asked_well_ns_ >= kAgentAskEveryNs) {
    asked_well_ns_ = now;
    ForEachContext([&](LaunchContext& context) { AskWhetherWell(context); });
  }
  return look;
}

// Whoever closed the gate may have died before it could open it again. Called before driver calls of the agent's that follow
// when nobody asks any more: they may wait for a call of the program's that waits in the driver for what is behind the gate.
void Agent::OpenLeftGate() {
  if (gpu_.has_left() || gpu_.requests() != 0 || gpu_.slot().gate.load() != 0) return;
  sched::SettleGate(gpu_.slot());
}

void Agent::LookAtGates(bool was_told, bool whole) {
  const bool may_hold = GatesMayHold(gpu_);  // read first: once the process is asked it is true
  if (gpu_.requests() == 0) had_gates_ = may_hold;
  if (!whole) {
    closed_ns_ = 0;
  } else if (closed_ns_ == 0 || was_told) {
    closed_ns_ = MonotonicNs();
    has_told_time_to_gate_ = false;
    plain_when_closed_ = gpu_.demand.plain_launches.load();
  }
}

// Whether the plain launches that the device may still work on are over, as far as can be known.
// Launches that go out while the gate is closed wait at it, if gates are put. The launches before
// them reach a gate within the time that lies between two gates (BetweenGatesNs). The agent waits
// twice that time, because launches are judged by their mean.
bool Agent::PlainIsOver() const {
  const DemandState& demand = gpu_.demand;
  const bool is_held = closed_ns_ != 0 && GatesMayHold(gpu_);
  const uint64_t last = is_held ? plain_when_closed_ : demand.plain_launches.load();
  if (last <= demand.ended_launches.load()) return true;
  const uint64_t between_ns = BetweenGatesNs(gpu_);
  return is_held && had_gates_ && between_ns != 0 && MonotonicNs() - closed_ns_ >= 2 * between_ns;
}

// Tells the board what the look found. `is_answer`: the look came after the requests that stand now.
// While guarded launches run, plain ones do not count, because they mostly wait for the guarded ones.
void Agent::Publish(const Look& look, uint64_t requests, bool is_answer) {
  const bool stopped =
      requests != 0 &&
      (look.running != 0 ? look.running == look.yielded || look.oldest_yielded : PlainIsOver());
  if (closed_ns_ != 0 && had_gates_ && look.running == 0 && !std::exchange(has_told_time_to_gate_, true)) {
    gpu_.PublishTimeToGate(MeanTimeToGateNs(gpu_));
  }
  if (!stopped || is_answer) sched::SetStopped(gpu_.board(), gpu_.index(), stopped);
  gpu_.slot().launches.store(gpu_.demand.launches.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  if (gpu_.PublishKernel() && gpu_.board().header().attention.load() != 0) {
    sched::RingBell(gpu_.board().header());
  }
  const uint64_t now = MonotonicNs();
  if (requests != 0 && look.running != 0 && gpu_.sm_bound() == runtime::kAllSms) {
    if (stopped_since_ns_ == 0) stopped_since_ns_ = now;
  } else if (stopped_since_ns_ != 0) {
    gpu_.slot().waited_ns.fetch_add(now - stopped_since_ns_, std::memory_order_relaxed);
    stopped_since_ns_ = 0;
  }
}

void Agent::Spin(uint32_t seen, uint64_t until_ns) {
  while (gpu_.slot().wake.load(std::memory_order_relaxed) == seen && MonotonicNs() < until_ns) {
    for (int i = 0; i < 4; ++i) _mm_pause();
  }
}

// Sleeps until the agent is woken, or until it must renew the lease and check that the requesters are
// still alive.
void Agent::SleepHeld(uint32_t seen) {
  gpu_.demand.agent_wakes_ns.store(MonotonicNs() + held_ns_);
  sched::WaitForWake(gpu_.slot(), seen, held_ns_);
  gpu_.demand.agent_wakes_ns.store(0);
  held_ns_ = std::min(2 * held_ns_, kLongestHeldNs);
}

void Agent::Sleep(const Look& look, uint64_t requests, uint32_t seen) {
  const uint64_t now = MonotonicNs();
  const uint64_t hot_until = asked_ns_ + hot_ns_;
  if (look.acted) look_ns_ = kLookNs;
  // A launch that was resumed on the SMs that are not asked for may stop again, or end, without
  // anybody waking the agent.
  const bool resumed_beside = look.acted && requests != 0;
  if (requests != 0 && look.oldest_stopped && !resumed_beside) {
    if (hot_ns_ != 0) Spin(seen, std::max(now + kAgentSpinNs, hot_until));
    return SleepHeld(seen);
  }
  if (look.doubtful != 0 || resumed_beside) {
    // The device wakes nobody: the agent reads its words, often at first.
    if (now < hot_until) return Spin(seen, now + kHotLookNs);
    sched::WaitForWake(gpu_.slot(), seen, look_ns_);
    if (look_ns_ < kLongestLookNs) look_ns_ += look_ns_ / 8 + 1;
    return;
  }
  look_ns_ = kLookNs;
  if (now < hot_until && look.running != 0) return Spin(seen, hot_until);
  gpu_.demand.agent_wakes_ns.store(now + kIdleNs);  // before DemandTickNs reads the phase (Begin)
  const bool has_plain = requests != 0 && !PlainIsOver();
  const bool lingers = gpu_.demand.end_at_ns.load() != 0;
  if (requests != 0 && look.running == 0 && !has_plain && !lingers) return SleepHeld(seen);
  uint64_t tick = DemandTickNs(gpu_);
  if (has_plain) {
    tick = lingers ? std::min(tick, plain_look_ns_) : plain_look_ns_;
    plain_look_ns_ = std::min(plain_look_ns_ + plain_look_ns_ / 4, kLongestPlainLookNs);
  }
  if (tick < kIdleNs) gpu_.demand.agent_wakes_ns.store(now + tick);
  sched::WaitForWake(gpu_.slot(), seen, tick < kIdleNs ? tick : kIdleNs);
  gpu_.demand.agent_wakes_ns.store(0);
}

void Agent::Run() {
  ++this_thread.depth;  // driver calls of this thread are not the program's
  const RelaxedCapture relaxed;
  prctl(PR_SET_TIMERSLACK, 1'000UL);
  cpu_set_t processors;
  const bool may_spin = sched_getaffinity(0, sizeof(processors), &processors) == 0 &&
                        CPU_COUNT(&processors) >= kProcessorsToSpin;
  hot_ns_ = may_spin ? preemption_settings.hot_ns : 0;
  uint32_t last_seen = gpu_.slot().wake.load(), last_own = gpu_.own_wakes.load();
  for (;;) {
    const uint32_t seen = gpu_.slot().wake.load();
    if (gpu_.has_left()) {
      // The process ends, or has lost its slot. Nobody may hold the work that still runs; requesters
      // renew their requests every 10 ms, so they are dropped again each time. The agent does not sleep
      // on the slot's futex, because the slot may belong to another process.
      gpu_.DropRequestsAfterLeaving();
      (void)LookAtAll(true);
      LetContextGo();
      const timespec pause{.tv_sec = 0, .tv_nsec = kLeftNs};
      nanosleep(&pause, nullptr);
      continue;
    }
    const uint32_t own = gpu_.own_wakes.load();
    const bool was_told = seen - last_seen != own - last_own;
    const bool is_asked = gpu_.requests() != 0;
    const bool was_asked = was_told || is_asked;
    if (was_told) {
      asked_ns_ = MonotonicNs();
      look_ns_ = kLookNs;
      held_ns_ = kHeldNs;
      plain_look_ns_ = kPlainLookNs;
    }
    const bool whole = gpu_.requests() != 0 && gpu_.sm_bound() == runtime::kAllSms;
    // If only the bound grew nobody woke the agent, and the time of the request is not known.
    if (was_told || !whole) whole_ns_ = whole ? asked_ns_ : 0;
    last_seen = seen;
    last_own = own;
    LookAtGates(was_told, whole);
    OpenLeftGate();
    const Look look = LookAtAll(was_asked);
    const uint64_t requests = gpu_.requests();
    Publish(look, requests, is_asked && gpu_.slot().wake.load() == seen);
    // After Publish, so that the process that waits for the stop hears of it first.
    if (look.stopped != 0 && IsHeldAtGate()) {
      const MutexLock lock(gpu_.agent_mutex);
      ForEachContext([&](LaunchContext& context) { ResumeAtGate(context); });
    }
    if (was_told && requests == 0) gpu_.WakeHeldThreads();
    // The process that let this one go leaves it to this agent to ring the daemon (ReleaseDemand).
    if (was_told && requests == 0 && gpu_.board().header().attention.load() != 0) {
      sched::RingBell(gpu_.board().header());
    }
    const uint64_t now = MonotonicNs();
    if (now - polled_ns_ >= (requests != 0 ? kHeldNs : kIdleNs)) {
      polled_ns_ = now;
      gpu_.Poll(now);
    }
    LookAfterDemand(gpu_, now);
    LetContextGo();
    Sleep(look, requests, seen);
  }
}

void* AgentThread(void* gpu) {
  Agent(static_cast<GpuBoard*>(gpu)).Run();
  return nullptr;
}

}  // namespace

void StartAgent(GpuBoard* gpu) noexcept {
  if (gpu->agent_started.exchange(true)) return;
  gpu->begins_with_gates = !gpu->joined_late && GatesMayHold(*gpu);
  const bool started = StartOwnThread(&AgentThread, gpu, 512 << 10);
  if (!started) Say(Level::kWarn, {"kernels are not preempted: no thread"});
  gpu->has_agent.store(started);
}

AgentPause::AgentPause(GpuBoard& gpu) noexcept : mutex_(gpu.agent_mutex) {
  pthread_mutex_lock(&mutex_);
}
AgentPause::~AgentPause() { pthread_mutex_unlock(&mutex_); }

}  // namespace cupola::intercept::preempt
