#include "simulated_machine.h"

#include <cmath>

namespace cupola::sched {
namespace {

constexpr uint64_t kLaunchNs = 5'000;

}  // namespace

// Kernels of different contexts take turns by the hardware's time slices: each gets its part; but one
// that is about to leave has the GPU until then. With a shared context a kernel that needs k SMs has
// them to itself while the other leaves them.
double SimMachine::Rate(const SimProcess& process) const {
  size_t running = 0;
  size_t draining = 0;
  const SimProcess* other = nullptr;
  for (const SimProcess& each : processes_) {
    if (!each.OnGpu()) continue;
    ++running;
    if (each.device == DeviceState::kDraining && !each.plan.shares_context) ++draining;
    if (&each != &process) other = &each;
  }
  if (draining > 0) {
    return process.device == DeviceState::kDraining ? 1.0 / static_cast<double>(draining) : 0;
  }
  if (running == 2 && process.plan.shares_context && other->plan.shares_context) {
    const auto sms = static_cast<double>(sms_);
    if (process.sm_bound > 0 && other->plan.sms <= process.sm_bound) {
      return (sms - process.sm_bound) / sms;
    }
    if (other->sm_bound > 0 && process.plan.sms <= other->sm_bound) return 1;
  }
  return 1.0 / static_cast<double>(running);
}

void SimMachine::AdvanceTo(uint64_t at_ns) {
  const auto elapsed = static_cast<double>(at_ns - now_);
  for (SimProcess& process : processes_) {
    if (!process.OnGpu()) continue;
    double work = elapsed * Rate(process);
    const double overhead = std::min(work, process.overhead_left);
    process.overhead_left -= overhead;
    if (overhead > 0) OnSwitching(overhead);
    work -= overhead;
    process.gpu_ns += work;
    process.work_left -= work;
    process.work_done += work;
  }
  OnElapse(at_ns);
  now_ = at_ns;
}

uint64_t SimMachine::NextCompletion() const {
  uint64_t first = kNever;
  for (const SimProcess& process : processes_) {
    if (!process.OnGpu() || Rate(process) == 0) continue;
    const double left = std::max(process.work_left + process.overhead_left, 0.0);
    const double wait = std::ceil(left / Rate(process));
    first = std::min(first, now_ + static_cast<uint64_t>(wait));
  }
  return first;
}

void SimMachine::CompleteKernels() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    SimProcess& process = processes_[i];
    if (!process.OnGpu() || process.work_left + process.overhead_left > 0.5) continue;
    OnKernelDone(i);
    process.device = DeviceState::kNone;
    process.has_kernel = false;
    ++process.version;
    if (process.stopped_by_signal) {
      process.host_pending = true;
    } else {
      FinishHost(i);
    }
  }
}

/// A process has nothing left to run. Whom it lets go tells the daemon, else it does.
void SimMachine::Finish(const SimProcess& process) {
  if (!ReleaseDemand(board_, process.slot, now_)) RingBell(board_.header());
}

/// The process's host code sees that its kernel is complete.
void SimMachine::FinishHost(size_t index) {
  SimProcess& process = processes_[index];
  process.host_pending = false;
  if (process.launched >= process.plan.kernels) {
    Finish(process);
    return;
  }
  if (process.plan.back_to_back) {
    Launch(index);
  } else {
    Finish(process);
    Push(now_ + process.plan.gap_ns, EventType::kArrive, index, process.version);
  }
}

Demand SimMachine::DemandOf(const SimProcess& process) const {
  Demand demand;
  const double left = std::max(process.work_left, 0.0);
  demand.remaining_ns = static_cast<uint64_t>(left * process.plan.prediction);
  demand.lease_ns = process.plan.lease_ns;
  demand.sms = process.plan.sms;
  // Who stops only between kernels does so in a time of which it knows the mean.
  const bool has_gates_only = process.plan.can_gate && !process.plan.can_preempt;
  const uint64_t stop_ns = has_gates_only ? kGateQuantumNs / 2 : process.plan.block_ns;
  demand.overhead_ns =
      process.plan.reports_overhead ? stop_ns + (process.plan.shares_context ? switch_ns_ : 0) : 0;
  return demand;
}

void SimMachine::Launch(size_t index) {
  SimProcess& process = processes_[index];
  const double factor = 1 + random_.Uniform(-process.plan.spread, process.plan.spread);
  process.kernel_ns = static_cast<uint64_t>(static_cast<double>(process.plan.kernel_ns) * factor);
  process.work_left = static_cast<double>(process.kernel_ns);
  process.work_done = 0;
  process.overhead_left = 0;
  process.has_kernel = true;
  process.was_stopped = false;
  process.arrived_ns = now_;
  ++process.launched;
  ++process.version;
  process.device = DeviceState::kWaiting;
  const bool first = (board_.slot(process.slot).demand & 1) == 0;
  WakeSleepers(board_, BeginDemand(board_, process.slot, DemandOf(process), now_));
  if (first) Push(now_ + process.plan.lease_ns / 2, EventType::kRenew, index, ++process.renewals);
}

void SimMachine::Arrive(size_t index) {
  SimProcess& process = processes_[index];
  if (process.stopped_by_signal) {
    process.arrival_pending = true;
    return;
  }
  Launch(index);
}

/// What the device, and the agent, do about the requests on the board.
void SimMachine::React(size_t index) {
  SimProcess& process = processes_[index];
  if (!process.has_kernel || process.dead) return;
  BoardSlot& slot = board_.slot(process.slot);
  const ProcessPlan& plan = process.plan;
  const uint32_t bound = slot.yield_requests != 0 ? slot.yield_sm_bound.load() : 0;
  const bool partly = bound > 0 && bound < sms_ && plan.can_preempt;
  const bool asked = bound > 0 && !partly && (plan.can_preempt || plan.can_gate);
  process.sm_bound = partly ? bound : 0;
  switch (process.device) {
    case DeviceState::kNone: return;
    case DeviceState::kWaiting:
      if (asked) {
        SetStopped(board_, process.slot, true);
      } else if (!process.stopped_by_signal || !process.was_stopped) {
        SetStopped(board_, process.slot, false);
        process.device = DeviceState::kStarting;
        Push(now_ + kLaunchNs + (process.was_stopped ? random_.Below(50'000) : 0),
             EventType::kStart, index, ++process.version);
      }
      return;
    case DeviceState::kStarting:
      if (!asked) return;
      process.device = DeviceState::kWaiting;
      process.was_stopped = true;
      SetStopped(board_, process.slot, true);
      ++process.version;
      return;
    case DeviceState::kRunning:
      if (!asked) return;
      process.device = DeviceState::kDraining;
      Push(now_ + 2'000 + random_.Below(plan.can_preempt ? plan.block_ns : kGateQuantumNs),
           EventType::kDrained, index, ++process.version);
      return;
    case DeviceState::kDraining:
      if (asked) return;
      process.device = DeviceState::kRunning;
      ++process.version;
      return;
  }
}

void SimMachine::ReactAll() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    SimProcess& process = processes_[i];
    const bool asked = board_.slot(process.slot).yield_requests != 0;
    if (process.was_asked && !asked && !process.dead && !process.stopped_by_signal) {
      RingBell(board_.header());  // its agent was let go
    }
    process.was_asked = asked;
    React(i);
  }
  if (board_.header().bell != bell_seen_) {
    bell_seen_ = board_.header().bell;
    OnBell();
  }
}

void SimMachine::Handle(const SimEvent& event) {
  if (event.type >= EventType::kReview) return HandleOther(event);
  if (event.process >= processes_.size()) return;  // of one that has been and gone
  SimProcess& process = processes_[event.process];
  if (process.dead) return;
  switch (event.type) {
    case EventType::kArrive:
      if (event.version == process.version) Arrive(event.process);
      return;
    case EventType::kStart:
      if (event.version != process.version || process.device != DeviceState::kStarting) return;
      process.device = DeviceState::kRunning;
      if (last_on_gpu_ != event.process && !process.plan.shares_context) {
        process.overhead_left = static_cast<double>(switch_ns_);
      }
      last_on_gpu_ = event.process;
      return;
    case EventType::kDrained:
      if (event.version != process.version || process.device != DeviceState::kDraining) return;
      process.device = DeviceState::kWaiting;
      process.was_stopped = true;
      OnPreempted(event.process);
      SetStopped(board_, process.slot, true);
      if (!process.stopped_by_signal && (board_.slot(process.slot).demand & 1) != 0) {
        UpdateDemand(board_, process.slot, {.lease_ns = process.plan.lease_ns}, now_);
      }
      return;
    case EventType::kRenew:
      if (event.version != process.renewals || process.stopped_by_signal ||
          (board_.slot(process.slot).demand & 1) == 0) {
        return;
      }
      UpdateDemand(board_, process.slot, {.lease_ns = process.plan.lease_ns}, now_);
      Push(now_ + process.plan.lease_ns / 2, EventType::kRenew, event.process, event.version);
      return;
    default: return;
  }
}

void SimMachine::Step() {
  const uint64_t event_at = events_.empty() ? kNever : events_.top().at_ns;
  const uint64_t completion = NextCompletion();
  AdvanceTo(std::min(event_at, completion));
  CompleteKernels();
  if (event_at <= completion) {
    const SimEvent event = events_.top();
    events_.pop();
    OnEvent(event);
    Handle(event);
  }
  ReactAll();
}

uint32_t SimMachine::CapabilitiesOf(const ProcessPlan& plan) {
  uint32_t capabilities = 0;
  if (plan.can_preempt) capabilities |= kCanPreempt;
  if (plan.can_gate) capabilities |= kCanGate;
  if (plan.shares_context) capabilities |= kSharesContext;
  return capabilities;
}

void SimMachine::Kill(size_t index) {
  SimProcess& process = processes_[index];
  process.dead = true;
  process.has_kernel = false;
  process.device = DeviceState::kNone;
  ++process.version;
}

void SimMachine::Continue(size_t index) {
  SimProcess& process = processes_[index];
  process.stopped_by_signal = false;
  Push(now_, EventType::kRenew, index, ++process.renewals);
  if (process.host_pending) FinishHost(index);
  if (process.arrival_pending) {
    process.arrival_pending = false;
    Launch(index);
  }
}

}  // namespace cupola::sched
