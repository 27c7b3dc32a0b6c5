// The daemon of a simulated scenario, and what happens to it and to the processes from outside.
#include <algorithm>
#include <cstring>

#include "simulation_run.h"

namespace cupola::sched {
namespace {

/// One board for all scenarios, wiped each time.
BoardView CleanBoard() {
  alignas(4096) static char memory[kBoardBytes];
  std::memset(memory, 0, sizeof(memory));
  BoardView board(memory);
  for (uint32_t i = 0; i < kBoardSlots; ++i) board.slot(i).gate = 1;
  return board;
}

}  // namespace

void Simulation::SetUp() {
  outcome_.trace = 0xCBF29CE484222325ULL;
  board_ = CleanBoard();
  for (const ProcessPlan& plan : scenario_.processes) {
    SimProcess process;
    process.plan = plan;
    process.slot = static_cast<uint32_t>(processes_.size());
    BoardSlot& slot = board_.slot(process.slot);
    slot.capabilities = CapabilitiesOf(plan);
    slot.state = static_cast<uint32_t>(SlotState::kLive);
    Push(now_ + plan.start_ns, EventType::kArrive, processes_.size(), 0);
    processes_.push_back(process);
  }
  for (size_t i = 0; i < scenario_.faults.size(); ++i) {
    Push(now_ + scenario_.faults[i].at_ns, EventType::kFault, 0, i);
  }
  StartDaemon();
}

/// A daemon takes over the board: the first one, or one that finds what the last one left. The dead
/// are not adopted.
void Simulation::StartDaemon() {
  if (has_daemon_) return;
  has_daemon_ = true;
  rejected_grants_ += core_.rejected_grants();
  core_ = Arbiter(make_policy_ ? make_policy_() : MakePolicy(scenario_.policy, scenario_.options),
                  200'000);
  core_.SetSms(scenario_.sms);
  core_.SetSwitchTime(scenario_.known_switch_ns);
  core_.Advance(now_);
  seats_.clear();
  for (SimProcess& process : processes_) {
    process.id = core_.Join(process.plan.settings);
    if (process.dead) {
      core_.Leave(process.id);
      if (!process.reaped) FreeSlot(board_, process.slot);
      process.reaped = true;
      continue;
    }
    seats_.push_back({process.slot, process.id});
    checks_.Forgive(process);
  }
  board_.header().attention = 1;
  checks_.SetDaemon(true);
  Review();
}

/// It reviews no more; what it asked for stands until it is missed.
void Simulation::EndDaemon() {
  if (!has_daemon_) return;
  has_daemon_ = false;
  review_at_ = kNever;
  ++daemon_deaths_;
  checks_.SetDaemon(false);
  for (size_t i = 0; i < processes_.size(); ++i) {
    Push(now_ + kMissedNs + random_.Below(kPollNs), EventType::kMissed, i, daemon_deaths_);
  }
}

/// What BoardClient::Poll does where there is no daemon, again and again.
void Simulation::MissDaemon(size_t index, uint64_t death) {
  const SimProcess& process = processes_[index];
  if (has_daemon_ || death != daemon_deaths_ || process.dead) return;
  if (!process.stopped_by_signal && scenario_.clients_miss_the_daemon) {
    DropDaemonHolds(board_, process.slot);
    DropStaleRequests(board_, process.slot, now_);
  }
  Push(now_ + kPollNs, EventType::kMissed, index, death);
}

void Simulation::OnEvent(const SimEvent& event) {
  if (event.type == EventType::kReview && event.at_ns != review_at_) return;
  Note(2 + static_cast<uint64_t>(event.type), event.process);
}

void Simulation::HandleOther(const SimEvent& event) {
  switch (event.type) {
    case EventType::kReview:
      if (event.at_ns == review_at_) Review();
      return;
    case EventType::kReap: return Leave(event.process);
    case EventType::kMissed: return MissDaemon(event.process, event.version);
    case EventType::kFault: return Inject(scenario_.faults[event.version]);
    default: return;
  }
}

void Simulation::OnBell() {
  const uint64_t at = now_ + 15'000 + random_.Below(35'000);
  if (!has_daemon_ || at >= review_at_) return;
  review_at_ = at;
  Push(at, EventType::kReview, 0, 0);
}

void Simulation::Inject(const Fault& fault) {
  if (fault.kind == FaultKind::kDaemonDies) return EndDaemon();
  if (fault.kind == FaultKind::kDaemonComes) return StartDaemon();
  SimProcess& process = processes_[fault.process];
  if (process.dead) return;
  ClientSettings settings = core_.settings(process.id);
  switch (fault.kind) {
    case FaultKind::kKill:
      Kill(fault.process);
      Push(now_ + 50'000 + random_.Below(500'000), EventType::kReap, fault.process, 0);
      return;
    case FaultKind::kStop:
      process.stopped_by_signal = true;
      return;
    case FaultKind::kContinue:
      checks_.Forgive(process);
      Continue(fault.process);
      return;
    case FaultKind::kPause: settings.paused = true; break;
    case FaultKind::kUnpause: settings.paused = false; break;
    case FaultKind::kSetPriority: settings.priority = fault.value; break;
    default: return;
  }
  if (!has_daemon_) return;  // nobody is there who would hear of it
  core_.Configure(process.id, settings);
  checks_.Forgive(process);
  RingBell(board_.header());
}

void Simulation::Leave(size_t index) {
  SimProcess& process = processes_[index];
  if (!has_daemon_ || process.reaped) return;
  core_.Leave(process.id);
  FreeSlot(board_, process.slot);
  std::erase_if(seats_, [&](const Seat& seat) { return seat.slot == process.slot; });
  process.reaped = true;
  RingBell(board_.header());
}

void Simulation::Review() {
  review_at_ = kNever;
  core_.Advance(now_);
  uint64_t next = ObserveBoard(board_, seats_, core_, now_);
  core_.Decide();
  CarryOutOrders(board_, seats_, core_, now_);
  next = std::min(next, core_.review_ns());
  next = std::max(next, now_ + 20'000);
  if (next != kNever) {
    review_at_ = next;
    Push(next, EventType::kReview, 0, 0);
  }
}

}  // namespace cupola::sched
