#include "sched/ffs_policy.h"

#include <algorithm>
#include <cmath>

namespace cupola::sched {
namespace {

// A debt is at most this many turns of its client: a kernel that could not be stopped for long does
// not shut its process out for as long.
constexpr int64_t kMostTurnsOwed = 4;

bool OthersWait(const Snapshot& snapshot, ClientId holder) {
  return std::any_of(snapshot.launches.begin(), snapshot.launches.end(),
                     [&](const LaunchView& launch) { return launch.client != holder; });
}

}  // namespace

uint64_t FfsPolicy::EpochUnit(const Snapshot& snapshot) const {
  double overhead = 0;
  double weights = 0;
  for (const LaunchView& launch : snapshot.launches) {
    const ClientView* client = snapshot.FindClient(launch.client);
    overhead += static_cast<double>(launch.overhead_ns);
    weights += client != nullptr ? client->weight : 1;
  }
  const double unit = weights > 0 ? overhead / (weights * options_.max_overhead) : 0;
  // "Below" the bound: one more than where they would be equal.
  return std::max<uint64_t>(static_cast<uint64_t>(std::floor(unit)) + 1, options_.quantum_ns);
}

bool FfsPolicy::KeepsTurn(const Snapshot& snapshot, Decision& decision) {
  const ClientView* client = snapshot.FindClient(holder_);
  if (!has_holder_ || client == nullptr || client->paused) return false;
  const LaunchView* launch = snapshot.FindLaunch(holder_);
  const bool others = OthersWait(snapshot, holder_);
  const auto used = static_cast<int64_t>(client->ran_ns - turn_start_ran_ns_);
  if (others && used >= allowance_ns_) return false;
  if (launch == nullptr) {
    idle_since_ns_ = std::min(idle_since_ns_, snapshot.now_ns);
    const uint64_t end = idle_since_ns_ + options_.idle_grace_ns;
    if (snapshot.now_ns >= end) return false;
    decision.review_ns = end;
    decision.hold_newcomers = others;
    return true;
  }
  idle_since_ns_ = kNever;
  contended_ = contended_ || others;
  decision.grants.push_back({holder_, launch->sequence, Variant::kAny, 0, kKeepsAllSms});
  decision.hold_newcomers = others;
  if (others) decision.review_ns = snapshot.now_ns + static_cast<uint64_t>(allowance_ns_ - used);
  return true;
}

void FfsPolicy::EndTurn(const Snapshot& snapshot) {
  if (!has_holder_) return;
  has_holder_ = false;
  const ClientView* client = snapshot.FindClient(holder_);
  if (client == nullptr) {
    debt_ns_.erase(holder_);
    return;
  }
  const auto used = static_cast<int64_t>(client->ran_ns - turn_start_ran_ns_);
  // Time that nobody else wanted is no debt.
  const int64_t overrun = contended_ ? std::max<int64_t>(used - allowance_ns_, 0) : 0;
  const auto most = static_cast<int64_t>(Turn(*client, EpochUnit(snapshot))) * kMostTurnsOwed;
  debt_ns_[holder_] = std::min(overrun, most);
}

const LaunchView* FfsPolicy::Next(const Snapshot& snapshot) {
  if (snapshot.launches.empty()) return nullptr;
  // Clients that owe more than a turn sit out turns until they owe less. Each lap pays a turn of
  // everyone's debt, so this ends after kMostTurnsOwed laps.
  const uint64_t unit = EpochUnit(snapshot);
  size_t at = 0;
  while (at < snapshot.launches.size() && snapshot.launches[at].client <= holder_) ++at;
  for (;; ++at) {
    if (at >= snapshot.launches.size()) {
      at = 0;
      ++rounds_;
    }
    const LaunchView& launch = snapshot.launches[at];
    int64_t& debt = debt_ns_[launch.client];
    const auto turn =
        static_cast<int64_t>(Turn(*snapshot.FindClient(launch.client), unit));
    if (snapshot.launches.size() == 1) debt = 0;
    if (debt < turn) return &launch;
    debt -= turn;
  }
}

void FfsPolicy::BeginTurn(const Snapshot& snapshot, const LaunchView& launch) {
  const ClientView* client = snapshot.FindClient(launch.client);
  int64_t& debt = debt_ns_[launch.client];
  has_holder_ = true;
  holder_ = launch.client;
  turn_start_ran_ns_ = client->ran_ns;
  allowance_ns_ = static_cast<int64_t>(Turn(*client, EpochUnit(snapshot))) - debt;
  debt = 0;
  contended_ = false;
  idle_since_ns_ = kNever;
}

void FfsPolicy::Decide(std::span<const Event> events, const Snapshot& snapshot,
                       Decision& decision) {
  for (const Event& event : events) {
    if (event.kind != EventKind::kLeft) continue;
    debt_ns_.erase(event.client);
    if (has_holder_ && holder_ == event.client) has_holder_ = false;
  }
  if (KeepsTurn(snapshot, decision)) return;
  EndTurn(snapshot);
  const LaunchView* next = Next(snapshot);
  if (next == nullptr) return;
  BeginTurn(snapshot, *next);
  KeepsTurn(snapshot, decision);
}

uint64_t FfsPolicy::WaitBound(const Snapshot& snapshot, const ClientView& client) const {
  const uint64_t unit = EpochUnit(snapshot);
  uint64_t bound = 0;
  for (const ClientView& other : snapshot.clients) {
    if (other.id == client.id) continue;
    const LaunchView* launch = snapshot.FindLaunch(other.id);
    bound += Turn(other, unit) + options_.idle_grace_ns;
    bound += launch != nullptr ? launch->overhead_ns : 0;
  }
  return bound;
}

std::string FfsPolicy::Dump() const {
  std::string text = "rounds=" + std::to_string(rounds_) + " holder=";
  text += has_holder_ ? std::to_string(holder_.value()) + " allowance_ns=" +
                            std::to_string(allowance_ns_)
                      : "none";
  for (const auto& [client, debt] : debt_ns_) {
    if (debt != 0) text += " debt_ns[" + std::to_string(client.value()) + "]=" + std::to_string(debt);
  }
  return text;
}

}  // namespace cupola::sched
