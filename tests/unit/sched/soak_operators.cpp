// What operators do in a soak, and what happens to the daemon.
#include "soak.h"

#include <iterator>
#include <utility>

#include <fcntl.h>

namespace cupola::sched {

using nlohmann::json;

// --- what operators do

void Soak::Reload() {
  Plan(After(random_, 900), Act::kReload);
  if (!daemon_.IsThere()) return;
  const std::string before = State().policy;
  SoakConfig config = MakeConfig(random_, config_.policy);
  config.is_good = !Chance(random_, 0.2);
  daemon_.WriteConfig(config.ToText());
  const json answer = daemon_.Control({{"command", "reload"}});
  ++outcome_.counts[config.is_good ? "reloads" : "bad_reloads"];
  if (answer.at("ok").get<bool>() != config.is_good) {
    ++outcome_.counts["wrong_answers"];
    return;
  }
  if (!config.is_good) {
    daemon_.WriteConfig(config_.ToText());  // for the next daemon
    return;
  }
  config_ = config;
  SettleAll();
  LookAtShow();
}

void Soak::SwitchPolicy() {
  policy_step_ = (policy_step_ + 1) % std::size(kPolicyParts);
  const PolicyPart& part = kPolicyParts[policy_step_];
  Plan(static_cast<uint64_t>(part.seconds * random_.Uniform(0.8, 1.2) * 1e9), Act::kPolicy);
  if (!daemon_.IsThere()) return;
  ++outcome_.counts["policy_switches"];
  // By the control request, or by the file.
  if (Chance(random_, 0.7)) {
    daemon_.Control({{"command", "policy"}, {"name", part.name}});
    told_policy_ = part.name == config_.policy ? "" : part.name;
  } else {
    // The file counts where it names another policy than it did: else what was told stays.
    const bool is_news = config_.policy != part.name;
    config_.policy = part.name;
    daemon_.WriteConfig(config_.ToText());
    daemon_.Control({{"command", "reload"}});
    if (is_news || told_policy_ == part.name) told_policy_.clear();
  }
  policy_since_ns_ = now_;
  checks_.Forgive();
  LookAtShow();
}

void Soak::Set() {
  Plan(After(random_, 60), Act::kSet);
  const size_t place = AnyLiving();
  if (place == SIZE_MAX || !daemon_.IsThere() || !clients_[place].is_known) return;
  SoakClient& client = clients_[place];
  json request{{"command", "set"}, {"pid", client.pid}};
  if (Chance(random_, 0.5)) {
    client.told.weight = 1 + static_cast<uint32_t>(random_.Below(SoakConfig::kMostWeight));
    request["weight"] = *client.told.weight;
  } else {
    client.told.priority = static_cast<int32_t>(random_.Below(5));
    request["priority"] = *client.told.priority;
  }
  ++outcome_.counts["sets"];
  if (!daemon_.Control(request).at("ok").get<bool>()) ++outcome_.counts["wrong_answers"];
  Settle(place);
}

void Soak::Pause() {
  Plan(After(random_, 60), Act::kPause);
  const size_t place = AnyLiving();
  if (place == SIZE_MAX || !daemon_.IsThere() || !clients_[place].is_known) return;
  SoakClient& client = clients_[place];
  const json answer = daemon_.Control({{"command", "set"}, {"pid", client.pid}, {"paused", true}});
  // Who cannot be stopped is not paused.
  if (answer.at("ok").get<bool>() != processes_[place].Stoppable()) ++outcome_.counts["wrong_answers"];
  if (!processes_[place].Stoppable()) return;
  ++outcome_.counts["pauses"];
  client.told.is_paused = true;
  Settle(place);
  Plan(After(random_, 20), Act::kResume, place);
}

// --- the daemon ends and comes back

void Soak::DaemonDies() {
  ++outcome_.counts["daemon_ends"];
  daemon_.Die(board_);
  ++deaths_;
  review_at_ = kNever;
  daemon_since_ns_ = now_;
  for (size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].is_known = false;
    if (clients_[i].is_used && !processes_[i].dead) Push(now_ + kMissedNs + random_.Below(kPollNs), EventType::kMissed, i, deaths_);
  }
  // Who ends meanwhile is for the next daemon to find.
  for (int i = 0; i < 2; ++i) {
    const size_t place = AnyLiving();
    if (place != SIZE_MAX) Plan(random_.Below(kSecondNs), Act::kGo, place);
  }
  checks_.DaemonChanged();
  Plan(After(random_, 4), Act::kDaemonComes);
}

/// What BoardClient::Poll does where there is no daemon, again and again.
void Soak::MissDaemon(size_t place, uint64_t death) {
  if ((daemon_.IsThere() && is_board_brought_) || death != deaths_ || processes_[place].dead) return;
  if (!processes_[place].stopped_by_signal) {
    DropDaemonHolds(board_, processes_[place].slot);
    DropStaleRequests(board_, processes_[place].slot, now_);
  }
  Push(now_ + kPollNs, EventType::kMissed, place, death);
}

/// It knows nobody, and has the board when the first client brings it.
void Soak::DaemonComes() {
  daemon_.Start();
  told_policy_.clear();
  daemon_since_ns_ = policy_since_ns_ = now_;
  is_board_brought_ = false;
  most_of_daemon_ = 0;
  for (size_t i = 0; i < clients_.size(); ++i) {
    if (!clients_[i].is_used) continue;
    clients_[i].told = {};
    if (!processes_[i].dead) Plan(random_.Below(kSecondNs), Act::kRejoin, i);
  }
  SettleAll();
  if (Living() == 0) {  // nobody brings the board: the next one is another
    for (size_t i = 0; i < clients_.size(); ++i) {
      if (clients_[i].is_used) Free(i);
    }
  }
  checks_.DaemonChanged();
  Plan(After(random_, 3600), Act::kDaemonDies);
  Review();
}

/// From here on the daemon is there for those on it.
void Soak::BoardIsBrought() {
  if (is_board_brought_) return;
  is_board_brought_ = true;
  daemon_since_ns_ = now_;
  checks_.DaemonChanged();
}

void Soak::Rejoin(size_t place) {
  SoakClient& client = clients_[place];
  const SimProcess& process = processes_[place];
  if (!daemon_.IsThere() || client.is_known || process.stopped_by_signal) return;
  const char* why = "";
  BoardMemory brought = BoardMemory::Map(fcntl(memory_.fd(), F_DUPFD_CLOEXEC, 0), &why);
  const Admission admission =
      daemon_.Join(client.pid, client.label, CapabilitiesOf(process.plan), std::move(brought), process.slot);
  if (admission.status != JoinStatus::kAccepted) ++outcome_.counts["wrong_answers"];
  BoardIsBrought();
  client.is_known = true;
  most_of_daemon_ = std::max(most_of_daemon_, Living());
  Settle(place);
  ++outcome_.counts["rejoins"];
}

}  // namespace cupola::sched
