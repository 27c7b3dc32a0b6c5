#include "soak.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

using nlohmann::json;

constexpr uint32_t kSms = 132;
constexpr uint64_t kSwitchNs = 100'000;
constexpr size_t kPlaces = 2 * kBoardSlots;  // of the living, and of the dead whose slots are not free yet
constexpr uint64_t kShortestSleepNs = 20'000, kLongestSleepNs = 250'000'000;  // as the daemon's threads (gpu_review.cpp)
constexpr uint64_t kActs = 32;
constexpr uint64_t kLookNs = kSecondNs;
constexpr uint64_t kShowNs = 15 * kSecondNs, kHeapNs = 300 * kSecondNs;

}  // namespace

Soak::Soak(const SoakOptions& options)
    : SimMachine(options.seed, kSms, kSwitchNs),
      options_(options),
      daemon_(&now_),
      checks_(kPlaces) {
  newcomers_ = MakeNewcomers(options_, random_);
  config_ = MakeConfig(random_, kPolicyParts[0].name);
  end_ns_ = now_ + options_.seconds * kSecondNs;
}

SoakState Soak::State() const {
  const std::string& policy = told_policy_.empty() ? config_.policy : told_policy_;
  return {processes_, clients_, board_, now_, daemon_.IsThere() && is_board_brought_, daemon_since_ns_, policy, policy_since_ns_};
}

void Soak::Plan(uint64_t after_ns, Act act, size_t place) {
  const uint64_t generation = place < clients_.size() ? clients_[place].generation : 0;
  Push(now_ + after_ns, EventType::kFault, place, generation * kActs + static_cast<uint64_t>(act));
}

size_t Soak::Living() const {
  return static_cast<size_t>(std::count_if(processes_.begin(), processes_.end(), [](const auto& p) { return !p.dead; }));
}

size_t Soak::AnyLiving() {
  const size_t living = Living();
  if (living == 0) return SIZE_MAX;
  size_t skip = random_.Below(living);
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].dead && skip-- == 0) return i;
  }
  return SIZE_MAX;
}

/// What a client costs: before anything else happens one client is there, then none, then a full board, then none. All
/// want the GPU: the daemon keeps the room for what it knows of their launches.
void Soak::CalibrateHeap() {
  const auto fill = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      daemon_.surroundings().Begin(next_pid_);
      const Admission admission = daemon_.Join(next_pid_++, "l0", kCanPreempt, {}, kNoSlot);
      AdoptBoard(admission.board_fd);
      if (admission.status != JoinStatus::kAccepted) continue;  // of a daemon with a bug, which is found later
      (void)BeginDemand(board_, admission.slot, {.remaining_ns = kSecondNs, .lease_ns = kSecondNs}, now_);
    }
    for (const char* policy : {"ffs", "hpf"}) {
      daemon_.Control({{"command", "policy"}, {"name", policy}});
      daemon_.Control({{"command", "reload"}});
      daemon_.Control({{"command", "show"}, {"state", true}});
    }
    return static_cast<double>(HeapScopeBytes());
  };
  const auto empty = [&](uint32_t count) {
    for (uint32_t pid = next_pid_ - count; pid < next_pid_; ++pid) daemon_.surroundings().End(pid);
    daemon_.KeepHouse();
    daemon_.Review();
    return static_cast<double>(HeapScopeBytes());
  };
  fill(1);
  const double small = empty(1);
  const double full = fill(kBoardSlots);
  const double large = empty(kBoardSlots);
  const double for_room = (large - small) / (kBoardSlots - 1);
  checks_.SetHeapModel({.empty = small - for_room, .for_room = for_room, .for_client = (full - large) / kBoardSlots});
  most_of_daemon_ = kBoardSlots;
}

SoakOutcome Soak::Run() {
  daemon_.WriteConfig(config_.ToText());
  daemon_.Start();
  told_policy_.clear();
  CalibrateHeap();
  for (size_t i = 0; i < newcomers_.size(); ++i) {
    Push(now_ + newcomers_[i].at_ns, EventType::kFault, i, static_cast<uint64_t>(Act::kCome));
  }
  const double whole_s = static_cast<double>(options_.seconds);
  Plan(After(random_, std::min(900.0, whole_s / 4)), Act::kReload);
  Plan(static_cast<uint64_t>(kPolicyParts[0].seconds * 1e9), Act::kPolicy);
  for (const Act act : {Act::kSet, Act::kPause, Act::kStop}) Plan(After(random_, 30), act);
  Plan(static_cast<uint64_t>(random_.Uniform(0.2, 0.6) * std::min(3600.0, whole_s) * 1e9), Act::kDaemonDies);
  Plan(kSecondNs / 2, Act::kHouse);
  Plan(kLookNs, Act::kLook);
  Plan(std::min(kHourNs, options_.seconds * kSecondNs - 1), Act::kHour);
  Review();
  for (uint64_t at = NextTime(); at < end_ns_; at = NextTime()) {
    Step();
    ++outcome_.counts["events"];
    const std::vector<Violation>& found = checks_.violations();
    if (found.size() >= options_.most_violations && options_.until_rule.empty()) break;
    const bool is_found = std::any_of(found.begin(), found.end(),
                                      [&](const Violation& one) { return one.rule == options_.until_rule; });
    if (is_found) break;
  }
  outcome_.counts["decisions"] = daemon_.reviews();
  outcome_.counts["simulated_seconds"] = now_ / kSecondNs;
  outcome_.violations = checks_.violations();
  outcome_.worst = checks_.worst();
  return outcome_;
}

void Soak::OnElapse(uint64_t to_ns) { checks_.Elapse(State(), to_ns); }

void Soak::OnBell() {
  const uint64_t at = now_ + 15'000 + random_.Below(35'000);
  if (!daemon_.IsThere() || at >= review_at_) return;
  review_at_ = at;
  Push(at, EventType::kReview, 0, 0);
}

void Soak::Review() {
  const uint64_t next = daemon_.Review();
  review_at_ = std::clamp(next, now_ + kShortestSleepNs, now_ + kLongestSleepNs);
  Push(review_at_, EventType::kReview, 0, 0);
}

void Soak::HandleOther(const SimEvent& event) {
  if (event.type == EventType::kReview) {
    if (event.at_ns == review_at_ && daemon_.IsThere()) Review();
    return;
  }
  if (event.type == EventType::kMissed && event.process >= processes_.size()) return;
  if (event.type == EventType::kMissed) return MissDaemon(event.process, event.version);
  if (event.type != EventType::kFault) return;
  const Act act = static_cast<Act>(event.version % kActs);
  if (act == Act::kCome) return Come(event.process);
  const bool is_of_place = act == Act::kGo || act == Act::kContinue || act == Act::kResume || act == Act::kRejoin;
  if (!is_of_place) return Do(act, event.process);
  if (event.process >= clients_.size()) return;
  const bool is_other = clients_[event.process].generation != event.version / kActs;
  if (!is_other && !processes_[event.process].dead) DoTo(act, event.process);
}

void Soak::DoTo(Act act, size_t place) {
  switch (act) {
    case Act::kGo: return Go(place);
    case Act::kContinue:
      Continue(place);
      checks_.Forgive();
      if (!clients_[place].is_known) Plan(random_.Below(kSecondNs), Act::kRejoin, place);
      return;
    case Act::kResume:
      if (!daemon_.IsThere() || !clients_[place].told.is_paused) return;
      daemon_.Control({{"command", "set"}, {"pid", clients_[place].pid}, {"paused", false}});
      clients_[place].told.is_paused = false;
      Settle(place);
      return;
    case Act::kRejoin: return Rejoin(place);
    default: return;
  }
}

void Soak::Do(Act act, size_t) {
  switch (act) {
    case Act::kStop: {
      const size_t place = AnyLiving();
      Plan(After(random_, 40), Act::kStop);
      if (place == SIZE_MAX || processes_[place].stopped_by_signal) return;
      ++outcome_.counts["freezes"];
      processes_[place].stopped_by_signal = true;
      Plan(After(random_, 15), Act::kContinue, place);
      return;
    }
    case Act::kReload: return Reload();
    case Act::kPolicy: return SwitchPolicy();
    case Act::kSet: return Set();
    case Act::kPause: return Pause();
    case Act::kDaemonDies: return DaemonDies();
    case Act::kDaemonComes: return DaemonComes();
    case Act::kHouse:
      Plan(kSecondNs / 2, Act::kHouse);
      if (daemon_.IsThere()) daemon_.KeepHouse();
      return;
    case Act::kExitSeen:
      if (daemon_.IsThere()) daemon_.KeepHouse();
      return;
    case Act::kLook: return Look();
    case Act::kHour:
      Plan(kHourNs, Act::kHour);
      checks_.EndHour(State());
      ++outcome_.counts["hours"];
      return;
    default: return;
  }
}

// --- clients

void Soak::AdoptBoard(int fd) {
  struct stat facts {};
  if (fd < 0 || fstat(fd, &facts) != 0 || (memory_ && memory_.inode() == facts.st_ino)) return;
  const char* why = "";
  memory_ = BoardMemory::Map(fcntl(fd, F_DUPFD_CLOEXEC, 0), &why);
  board_ = memory_.view();
  bell_seen_ = board_.header().bell;
}

void Soak::Come(size_t number) {
  const SoakNewcomer& newcomer = newcomers_[number];
  const uint64_t ends_ns = 1'000'000 + newcomer.at_ns + newcomer.stays_ns;
  const auto again = [&](uint64_t after_ns) {
    if (now_ + after_ns < ends_ns) Push(now_ + after_ns, EventType::kFault, number, static_cast<uint64_t>(Act::kCome));
  };
  if (!daemon_.IsThere() || (!is_board_brought_ && Living() != 0)) return again(After(random_, 2));
  const uint32_t pid = next_pid_;
  daemon_.surroundings().Begin(pid);
  const Admission admission = daemon_.Join(pid, newcomer.label, CapabilitiesOf(newcomer.plan), {}, kNoSlot);
  CollectPlaces();
  if (admission.status == JoinStatus::kAccepted) {
    ++next_pid_;
    return Take(newcomer, admission);
  }
  daemon_.surroundings().End(pid);
  ++outcome_.counts["refusals"];
  checks_.Refused(State());
  again(30 * kSecondNs);
}

void Soak::Take(const SoakNewcomer& newcomer, const Admission& admission) {
  AdoptBoard(admission.board_fd);
  BoardIsBrought();
  const auto free = std::find_if(clients_.begin(), clients_.end(), [](const auto& client) { return !client.is_used; });
  const auto place = static_cast<size_t>(free - clients_.begin());
  if (place == clients_.size()) {
    clients_.emplace_back();
    processes_.emplace_back();
  }
  ++comers_;
  SimProcess process;
  process.version = process.renewals = comers_ << 32;  // events of who was here before are void
  process.plan = newcomer.plan;
  process.slot = admission.slot;
  processes_[place] = process;
  SoakClient client;
  client.generation = comers_;
  client.is_used = client.is_known = true;
  client.pid = next_pid_ - 1;
  client.label = newcomer.label;
  client.is_hog = newcomer.is_hog;
  client.is_killed = newcomer.is_killed;
  clients_[place] = client;
  Settle(place);
  ++outcome_.counts["joins"];
  outcome_.counts["most_at_once"] = std::max<uint64_t>(outcome_.counts["most_at_once"], Living());
  most_of_daemon_ = std::max(most_of_daemon_, Living());
  Plan(newcomer.stays_ns, Act::kGo, place);
  if (newcomer.plan.kernels != 0) Push(now_ + newcomer.plan.start_ns, EventType::kArrive, place, process.version);
}

/// The process ends: it is killed, or leaves the board first.
void Soak::Go(size_t place) {
  SoakClient& client = clients_[place];
  SimProcess& process = processes_[place];
  const bool is_killed = client.is_killed || process.stopped_by_signal;
  ++outcome_.counts[is_killed ? "kills" : "leaves"];
  if (process.OnGpu()) ++outcome_.counts["ends_on_gpu"];
  if (board_.slot(process.slot).yield_requests != 0) ++outcome_.counts["ends_held"];
  Kill(place);
  if (!is_killed) {  // as BoardClient::Leave
    EndDemand(board_, process.slot);
    for (uint32_t victim = 0; victim < kBoardSlots; ++victim) ClearRequest(board_, victim, process.slot);
    board_.slot(process.slot).state = static_cast<uint32_t>(SlotState::kLeft);
    RingBell(board_.header());
  }
  daemon_.surroundings().End(client.pid);
  client.dead_since_ns = now_;
  // Its pidfd, or the bell.
  Plan(50'000 + random_.Below(450'000'000), Act::kExitSeen);
}

/// Places of those whose slots are free again, or another's.
void Soak::CollectPlaces() {
  if (!board_) return;
  for (size_t i = 0; i < clients_.size(); ++i) {
    SoakClient& client = clients_[i];
    if (!client.is_used || !processes_[i].dead) continue;
    const BoardSlot& slot = board_.slot(processes_[i].slot);
    if (slot.pid == client.pid && slot.state != static_cast<uint32_t>(SlotState::kFree)) continue;
    Free(i);
  }
  while (!clients_.empty() && !clients_.back().is_used) {
    clients_.pop_back();
    processes_.pop_back();
  }
}

void Soak::Free(size_t place) {
  checks_.Forget(State(), place);
  clients_[place].is_used = false;
  clients_[place].generation = 0;
  processes_[place].reaped = true;
}

/// What the client is to have, by the rules in force and what it was told.
void Soak::Settle(size_t place) {
  SoakClient& client = clients_[place];
  client.settings = config_.SettingsFor(client.label);
  client.settings.weight = client.told.weight.value_or(client.settings.weight);
  client.settings.priority = client.told.priority.value_or(client.settings.priority);
  client.settings.paused = client.told.is_paused;
  checks_.Forgive();
}

void Soak::SettleAll() {
  for (size_t i = 0; i < clients_.size(); ++i) {
    if (clients_[i].is_used) Settle(i);
  }
  checks_.Forgive();
}

// --- looks

void Soak::Look() {
  Plan(kLookNs, Act::kLook);
  CollectPlaces();
  checks_.Look(State());
  if (now_ / kShowNs != (now_ - kLookNs) / kShowNs) LookAtShow();
  if (now_ / kHeapNs != (now_ - kLookNs) / kHeapNs) checks_.JudgeHeap(State());
  if (daemon_.IsThere() && is_board_brought_) checks_.LookAtHeap(HeapScopeBytes(), Living(), most_of_daemon_);
}

void Soak::LookAtShow() {
  if (!daemon_.IsThere() || (!is_board_brought_ && Living() != 0)) return;
  checks_.LookAtShow(State(), daemon_.Control({{"command", "show"}, {"state", true}}));
}

}  // namespace cupola::sched
