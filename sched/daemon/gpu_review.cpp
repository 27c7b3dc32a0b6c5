// GpuArbiter: what happens at a review, and the deciding threads, which wait for the next one.
#include <algorithm>
#include <climits>
#include <cstring>

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sched/daemon/board_review.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {
namespace {

// The daemon gives a sign of life, and looks at leases and at clients that left, at least this often.
constexpr uint64_t kLongestSleepNs = 250'000'000;
// Reviews that are due by time follow one another no faster than this.
constexpr uint64_t kShortestSleepNs = 20'000;

/// The text in a field that a client may be writing at the same time.
template <size_t N>
std::string TextOf(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

/// Sleeps until the bell is rung or the time is over. It does not sleep where the bell has been rung since `seen`.
void SleepOnBell(BoardHeader& header, uint32_t seen, uint64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  // A ringer counts the bell up and then looks for sleepers. So either it sees this one, or the bell has changed before
  // the kernel compares it with `seen`.
  header.bell_sleepers = 1;
  syscall(SYS_futex, &header.bell, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  header.bell_sleepers = 0;
}

// Sleeps for the whole time, however often the bell is rung.
void Rest(uint64_t ns) {
  const timespec rest{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, nullptr);
}

}  // namespace

void GpuArbiter::ListenToBell(Board& board) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  DecidingClass::Thread self(*deciding_);
  BoardHeader& header = board.memory.view().header();
  while (!stop_) {
    self.Begin();
    const uint32_t seen = header.bell;
    uint64_t next = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      if (scheduling_ != self.status()) scheduling_ = self.status();
      next = ReviewLocked(system_.NowNs());
    }
    uint64_t now = system_.NowNs();
    const uint64_t rest_ns = self.End(now);
    if (rest_ns != 0) {
      Rest(rest_ns);
      now = system_.NowNs();
    }
    const uint64_t wait = next > now ? next - now : 0;
    SleepOnBell(header, seen, std::clamp(wait, kShortestSleepNs, kLongestSleepNs));
  }
}

uint64_t GpuArbiter::Review() {
  const std::lock_guard lock(mutex_);
  return ReviewLocked(system_.NowNs());
}

uint64_t GpuArbiter::ReviewLocked(uint64_t now_ns) {
  ++reviews_;
  core_.Advance(now_ns);
  uint64_t next = kNever;
  bool left = false;
  for (const auto& board : boards_) {
    for (Client& client : board->clients) {
      const BoardSlot& slot = board->memory.view().slot(client.slot);
      left = left || slot.state == static_cast<uint32_t>(SlotState::kLeft);
      // Rules may name kernels, so the settings follow the kernel at the head.
      if (std::strncmp(slot.kernel, client.kernel.c_str(), sizeof(slot.kernel)) != 0) {
        client.kernel = TextOf(slot.kernel);
        Apply(*board, client);
      }
    }
    next = std::min(next,
                    ObserveBoard(board->memory.view(), board->seats, core_, now_ns));
  }
  core_.Decide();
  bool changed_holds = false;
  for (const auto& board : boards_) {
    changed_holds |= CarryOutOrders(board->memory.view(), board->seats, core_, now_ns);
    BoardHeader& header = board->memory.view().header();
    header.daemon_beat_ns = now_ns;  // plant: beat_goes_back
    header.daemon_pid = static_cast<uint32_t>(getpid());
    header.epoch = core_.policy().rounds();
  }
  NoteDecisions(changed_holds);
  if (collects_phases_) NotePhases(now_ns);
  if (left) CollectLeaversLocked();
  return std::min(next, core_.review_ns());
}

void GpuArbiter::NoteDecisions(bool changed_holds) {
  uint64_t now_ns = 0;
  const auto now = [this, &now_ns] { return now_ns != 0 ? now_ns : now_ns = system_.NowNs(); };
  const bool is_rung_for = ClientCount() > 1;  // a client that is alone waits for nobody
  for (const auto& board : boards_) {
    for (Client& client : board->clients) {
      const LaunchView* const launch = core_.LaunchOf(client.id);
      if (launch == nullptr) continue;
      BoardSlot& slot = board->memory.view().slot(client.slot);
      const auto demand = static_cast<uint32_t>(launch->sequence);
      if (core_.IsGranted(client.id) && slot.granted_demand.load(std::memory_order_relaxed) != demand) {
        slot.granted_ns.store(now(), std::memory_order_relaxed);
        slot.granted_demand.store(demand);
      }
      if (client.known_demand == demand) continue;
      client.known_demand = demand;
      if (!is_rung_for) continue;
      // The client says this of itself: it may have begun another demand since, and the value may be nonsense.
      const uint64_t since_ns = slot.demand_since_ns.load(std::memory_order_relaxed);
      decision_times_.Add(since_ns < now() ? now() - since_ns : 0);
      daemon_decisions_ += changed_holds;
    }
  }
}

ClientPhase GpuArbiter::PhaseOf(const Board& board, const Client& client) {
  if (core_.LaunchOf(client.id) == nullptr) return ClientPhase::kIdle;
  const BoardSlot& slot = board.memory.view().slot(client.slot);
  const bool had_gpu = client.phase == ClientPhase::kRuns || client.phase == ClientPhase::kLeaves;
  const bool is_asked = slot.yield_requests != 0;
  if (is_asked && slot.stopped == 0 && had_gpu) return ClientPhase::kLeaves;
  // One that cannot be stopped runs whether it is granted the GPU or not.
  const bool may_run = core_.IsGranted(client.id) || !core_.ViewOf(client.id).stoppable();
  return may_run ? ClientPhase::kRuns : ClientPhase::kWaits;
}

void GpuArbiter::NotePhases(uint64_t now_ns) {
  for (const auto& board : boards_) {
    for (Client& client : board->clients) {
      const ClientPhase phase = PhaseOf(*board, client);
      if (phase == client.phase) continue;
      // A demand has begun before the review that sees it, at the time that the client says.
      const bool begins = client.phase == ClientPhase::kIdle;
      const uint64_t said_ns = board->memory.view().slot(client.slot).demand_since_ns.load(std::memory_order_relaxed);
      AddPhase(client, phase, begins ? std::clamp(said_ns, std::min(client.phase_since_ns, now_ns), now_ns) : now_ns);
    }
  }
}

void GpuArbiter::AddPhase(Client& client, ClientPhase phase, uint64_t now_ns, bool with_name) {
  client.phase = phase;
  client.phase_since_ns = now_ns;
  if (!collects_phases_) return;
  if (phases_.size() >= kMostPhases) {
    ++lost_phases_;
    return;
  }
  PhaseChange change{.at_ns = now_ns, .pid = client.process.pid, .phase = phase};
  if (with_name) {
    change.name = FileName(client.process.executable);
    if (!client.process.label.empty()) change.name += " [" + client.process.label + "]";
  }
  phases_.push_back(std::move(change));
  if (phases_.size() == kMostPhases / 2) CallServer();
}

GpuStatus GpuArbiter::Status() {
  const std::lock_guard lock(mutex_);
  const uint64_t now = system_.NowNs();
  ReviewLocked(now);
  GpuStatus status;
  status.uuid = uuid_;
  status.sms = core_.snapshot().sms;
  status.boards = boards_.size();
  status.policy = core_.policy().name();
  status.policy_state = core_.Dump();
  status.reviews = reviews_;
  status.now_ns = now;
  status.decisions = decision_times_.total();
  status.daemon_decisions = daemon_decisions_;
  status.decision_p50_ns = decision_times_.Percentile(0.5);
  status.decision_p99_ns = decision_times_.Percentile(0.99);
  status.scheduling = scheduling_;
  for (const auto& board : boards_) {
    for (const Client& client : board->clients) {
      const BoardSlot& slot = board->memory.view().slot(client.slot);
      ClientStatus row;
      row.process = client.process;
      row.slot = client.slot;
      row.settings = core_.settings(client.id);
      row.capabilities = slot.capabilities;
      row.granted = core_.IsGranted(client.id);
      row.held = slot.yield_requests != 0;
      row.stopped = slot.stopped != 0;
      if (const LaunchView* launch = core_.LaunchOf(client.id)) {
        row.active = true;
        row.expected_ns = launch->expected_ns;
        row.waited_ns = launch->waited_ns;
        row.remaining_ns = launch->remaining_ns;
      }
      row.wait_bound_ns = core_.WaitBound(client.id);
      row.ran_ns = core_.ViewOf(client.id).ran_ns;
      row.launches = slot.launches;
      row.preemptions = slot.preemptions;
      row.resumes = slot.resumes;
      row.gpu_ns = slot.gpu_ns;
      row.between_ns = slot.between_ns;
      row.unstoppable_ns = slot.unstoppable_ns;
      row.client_waited_ns = slot.waited_ns;
      row.kernel = TextOf(slot.kernel);
      status.clients.push_back(std::move(row));
    }
  }
  return status;
}

}  // namespace cupola::sched
