// FfsPolicy: FFS, weighted round robin with an epoch length that keeps the overhead of switching below a bound (FLEP
// section 5.2.2). A turn of client i is T * W_i / W_least of GPU time. A turn overruns because a victim leaves only at
// a block boundary; the overrun is taken off the client's next turn, so that the shares hold whatever the blocks are
// like. A client without work loses its turn after a short grace period: the gap between two kernels is no reason to
// switch. MakePolicy creates it; the Arbiter of one GPU owns and calls it (policy.h). Not thread-safe.
#pragma once

#include <algorithm>
#include <map>

#include "sched/policy.h"

namespace cupola::sched {

class FfsPolicy : public Policy {
 public:
  explicit FfsPolicy(const PolicyOptions& options) : options_(options) {}

  std::string_view name() const override { return "ffs"; }
  /// No turn and no T is longer than this, so that sums of some hundreds of turns fit into their integers.
  static constexpr uint64_t kLongestTurnNs = uint64_t{1} << 50;

  /// The turn that is under way goes on, and debts stay; the next turn is by the options of this object.
  void TakeOver(const Policy& before) override;

  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override;
  /// False: a turn is given by a decision of the policy, never taken.
  bool MayTake(const Snapshot&, const ClientView&, const ClientView&) const override {
    return false;
  }
  uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const override;
  std::string Dump() const override;

  /// Completed rounds: how often the turn has come back to the client with the lowest number.
  uint64_t rounds() const override { return rounds_; }

  /// How long turns are. Only the ratios of weights count: T is the turn of the least weight.
  struct Epoch {
    uint64_t unit_ns = 0;  ///< T
    uint32_t least_weight = 1;
    uint64_t quantum_ns = 0;
    /// The turn in ns of a client of this weight, not below the quantum and not above kLongestTurnNs.
    uint64_t TurnOf(uint32_t weight) const;
  };
  /// The epoch for the launches of the snapshot. T is the smallest value that satisfies the overhead bound and is not
  /// below the quantum, except that the quantum makes no round longer than `epoch_ns`. `all_clients_weigh`: clients
  /// without a launch count for the least weight too.
  Epoch EpochOf(const Snapshot& snapshot, bool all_clients_weigh = false) const;

 protected:
  /// The GPU time of a turn of `client`, before its debt is taken off.
  virtual uint64_t Turn(const ClientView& client, const Epoch& epoch) const {
    return epoch.TurnOf(client.weight);
  }

 private:
  /// The GPU time that a client has had beyond its turns: what its turn overran, and what it ran after its turn because
  /// it had not left yet. What it had before it joined, or before this policy, is not counted.
  struct Account {
    int64_t debt_ns = 0;  ///< negative: its next turn is longer
    uint64_t settled_ran_ns = 0;  ///< the client's ran_ns up to which the debt is counted
  };

  void Settle(const ClientView& client, Account& account, int64_t turn_ns) const;
  bool KeepsTurn(const Snapshot& snapshot, Decision& decision);
  void EndTurn(const Snapshot& snapshot);
  /// The first launch after the holder's, in the order of clients, whose client has no debt to sit out.
  const LaunchView* Next(const Snapshot& snapshot);
  void BeginTurn(const Snapshot& snapshot, const LaunchView& launch);

  PolicyOptions options_;
  bool has_holder_ = false;
  ClientId holder_;
  uint64_t turn_start_ran_ns_ = 0;  ///< the holder's ran_ns when its turn began
  int64_t allowance_ns_ = 0;        ///< GPU time of this turn
  int64_t turn_debt_ns_ = 0;        ///< the debt that was taken off this turn
  bool contended_ = false;          ///< another client has wanted the GPU during this turn
  uint64_t idle_since_ns_ = kNever;  ///< when the holder ran out of work; kNever = it has work
  std::map<ClientId, Account> accounts_;
  uint64_t rounds_ = 0;
};

}  // namespace cupola::sched
