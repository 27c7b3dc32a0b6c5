#include "sched/ffs_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cupola::sched {
namespace {

// A debt (FfsPolicy::Account) is at most this many turns of its client. Otherwise a client whose
// kernel could not be stopped for long would be shut out for as long afterwards.
constexpr int64_t kMostTurnsOwed = 4;

/// Whether a client other than `holder`, the client whose turn it is, wants the GPU.
bool OthersWait(const Snapshot& snapshot, ClientId holder) {
  return std::any_of(snapshot.launches.begin(), snapshot.launches.end(),
                     [&](const LaunchView& launch) { return launch.client != holder; });
}

}  // namespace

uint64_t FfsPolicy::Epoch::TurnOf(uint32_t weight) const {
  const double turn = static_cast<double>(unit_ns) * weight / least_weight;  // plant: weights_ignored
  if (turn >= static_cast<double>(kLongestTurnNs)) return kLongestTurnNs;
  return std::max(static_cast<uint64_t>(turn), quantum_ns);
}

FfsPolicy::Epoch FfsPolicy::EpochOf(const Snapshot& snapshot, bool all_clients_weigh) const {
  double overhead = 0;
  double weights = 0;
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (const LaunchView& launch : snapshot.launches) {
    const ClientView* client = snapshot.FindClient(launch.client);
    const uint32_t weight = client != nullptr ? client->weight : 1;
    overhead += static_cast<double>(launch.overhead_ns);
    weights += weight;
    least = std::min(least, weight);
  }
  if (all_clients_weigh || weights == 0) {
    for (const ClientView& client : snapshot.clients) least = std::min(least, client.weight);
  }
  if (snapshot.clients.empty() && weights == 0) least = 1;
  // The part of a round that a client of the least weight has. With it the rule of PolicyOptions,
  // sum(O_i) / (T * sum(w_i)) < max_overhead with w_i = W_i / W_least, is T > bound.
  const double part = weights > 0 ? least / weights : 1;
  const double bound = weights > 0 ? overhead * part / options_.max_overhead : 0;
  const auto longest = static_cast<double>(kLongestTurnNs);
  // The overhead is to stay below max_overhead, not to reach it: this T is 1 ns above `bound`.
  const uint64_t by_bound = static_cast<uint64_t>(std::floor(std::min(bound, longest))) + 1;
  const auto by_epoch = static_cast<uint64_t>(part * static_cast<double>(options_.epoch_ns));
  return {.unit_ns = std::max(by_bound, std::min(options_.quantum_ns, by_epoch)),
          .least_weight = std::max<uint32_t>(least, 1),
          .quantum_ns = options_.quantum_ns};
}

/// Whether the turn of the holder goes on. If so, fills in the decision: the holder's grant, or no
/// grant while the holder has no work and its grace period lasts. A turn has no end while nobody
/// else wants the GPU. Once somebody does, newcomers are held too, because nobody may take the
/// turn.
bool FfsPolicy::KeepsTurn(const Snapshot& snapshot, Decision& decision) {
  const ClientView* client = snapshot.FindClient(holder_);
  if (!has_holder_ || client == nullptr || client->paused) return false;
  const LaunchView* launch = snapshot.FindLaunch(holder_);
  const bool others = OthersWait(snapshot, holder_);
  const auto used = static_cast<int64_t>(client->ran_ns - turn_start_ran_ns_);
  if (others && !contended_) {
    // The first other client of this turn. A holder that has used its turn up alone owes nothing,
    // so the turn counts as contended only if some of it is left. With more clients T is another.
    contended_ = used < allowance_ns_;
    allowance_ns_ = static_cast<int64_t>(Turn(*client, EpochOf(snapshot))) - turn_debt_ns_;
  }
  if (others && used >= allowance_ns_) return false;  // plant: debts_forgiven
  if (launch == nullptr) {
    idle_since_ns_ = std::min(idle_since_ns_, snapshot.now_ns);
    const uint64_t end = idle_since_ns_ + options_.idle_grace_ns;
    if (snapshot.now_ns >= end) return false;
    decision.review_ns = end;
    decision.hold_newcomers = others;
    return true;
  }
  idle_since_ns_ = kNever;
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
    accounts_.erase(holder_);
    return;
  }
  const auto used = static_cast<int64_t>(client->ran_ns - turn_start_ran_ns_);
  // The allowance already was the turn less the earlier debt, so what was used beyond it is all
  // that is owed now. Time that no other client wanted is no debt.
  accounts_[holder_] = {contended_ ? std::max<int64_t>(used - allowance_ns_, 0) : 0,
                        client->ran_ns};
}

// Adds the GPU time that the client has had since the account was last settled. It was not the
// client's turn then: it had not left the GPU yet, or cannot be stopped. Neither the debt nor what
// makes the next turn longer (Next) is more than it can be with the turns of now.
void FfsPolicy::Settle(const ClientView& client, Account& account, int64_t turn_ns) const {
  account.debt_ns += static_cast<int64_t>(client.ran_ns - account.settled_ran_ns);
  // The turn may be another than when the debt was made: weights, overheads and options change.
  account.debt_ns = std::clamp(account.debt_ns, -turn_ns / 2, turn_ns * kMostTurnsOwed);
  account.settled_ran_ns = client.ran_ns;
}

const LaunchView* FfsPolicy::Next(const Snapshot& snapshot) {
  if (snapshot.launches.empty()) return nullptr;
  // A client that owes more than half a turn sits this round out, which pays off one turn, because
  // what is left of such a turn would be mostly overhead. If it owed less than the whole turn, the
  // debt is then negative and makes its next turn longer, up to one and a half turns. Each pass
  // over the launches pays off one turn of each debt, so the loop ends. A client that is alone owes
  // nobody.
  const Epoch epoch = EpochOf(snapshot);
  size_t at = 0;
  while (at < snapshot.launches.size() && snapshot.launches[at].client <= holder_) ++at;
  for (;; ++at) {
    if (at >= snapshot.launches.size()) {
      at = 0;
      ++rounds_;
    }
    const LaunchView& launch = snapshot.launches[at];
    const ClientView& client = *snapshot.FindClient(launch.client);
    Account& account = accounts_[launch.client];
    const auto turn = static_cast<int64_t>(Turn(client, epoch));
    Settle(client, account, turn);
    if (snapshot.launches.size() == 1) account.debt_ns = 0;
    if (account.debt_ns <= turn / 2) return &launch;
    account.debt_ns -= turn;
  }
}

void FfsPolicy::BeginTurn(const Snapshot& snapshot, const LaunchView& launch) {
  const ClientView* client = snapshot.FindClient(launch.client);
  has_holder_ = true;
  holder_ = launch.client;
  turn_start_ran_ns_ = client->ran_ns;
  turn_debt_ns_ = accounts_[launch.client].debt_ns;
  allowance_ns_ = static_cast<int64_t>(Turn(*client, EpochOf(snapshot))) - turn_debt_ns_;
  contended_ = false;
  idle_since_ns_ = kNever;
}

void FfsPolicy::TakeOver(const Policy& before) {
  const auto* const same = dynamic_cast<const FfsPolicy*>(&before);
  if (same == nullptr) return;
  const PolicyOptions options = options_;
  *this = *same;
  options_ = options;
}

void FfsPolicy::Decide(std::span<const Event> events, const Snapshot& snapshot,
                       Decision& decision) {
  for (const Event& event : events) {
    if (event.kind == EventKind::kJoined) {
      const ClientView* client = snapshot.FindClient(event.client);
      if (client != nullptr) accounts_.try_emplace(event.client, Account{0, client->ran_ns});
    }
    if (event.kind != EventKind::kLeft) continue;
    accounts_.erase(event.client);
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
  const Epoch epoch = EpochOf(snapshot, true);
  uint64_t bound = 0;
  for (const ClientView& other : snapshot.clients) {
    if (other.id == client.id) continue;
    const LaunchView* launch = snapshot.FindLaunch(other.id);
    bound += Turn(other, epoch) * 3 / 2 + options_.idle_grace_ns;  // the longest turn, see Next()
    bound += launch != nullptr ? launch->overhead_ns : 0;
  }
  // The client sits out the turns that it owes, and the others then have their turns once more.
  const auto account = accounts_.find(client.id);
  if (account == accounts_.end() || (has_holder_ && holder_ == client.id)) return bound;
  const auto owed = static_cast<uint64_t>(std::max<int64_t>(
      account->second.debt_ns +
          static_cast<int64_t>(client.ran_ns - account->second.settled_ran_ns),
      0));
  const uint64_t turn = Turn(client, epoch);
  const uint64_t laps = std::min<uint64_t>((owed + turn / 2) / turn, kMostTurnsOwed);
  return bound * (1 + laps);
}

std::string FfsPolicy::Dump() const {
  std::string text = "rounds=" + std::to_string(rounds_) + " holder=";
  text += has_holder_ ? std::to_string(holder_.value()) + " allowance_ns=" +
                            std::to_string(allowance_ns_)
                      : "none";
  for (const auto& [client, account] : accounts_) {
    if (account.debt_ns == 0) continue;
    text += " debt_ns[" + std::to_string(client.value()) +
            "]=" + std::to_string(account.debt_ns);
  }
  return text;
}

}  // namespace cupola::sched
