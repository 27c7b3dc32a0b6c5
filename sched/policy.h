// Policy: decides who may run. Receives events and a snapshot and answers with a set of grants; keeps
// only what it needs to know of the past. The same objects run in the daemon, in unit tests and in the
// simulation in virtual time. Not thread-safe: one GPU's arbiter owns one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sched/held_for.h"
#include "sched/snapshot.h"

namespace cupola::sched {

/// What policies can be told. Times in ns.
struct PolicyOptions {
  double max_overhead = 0.10;      ///< FFS: sum(O_i) / (T * sum(W_i)) stays below it
  uint64_t quantum_ns = 500'000;   ///< FFS: no turn is shorter: it would be lost in reviews
  uint64_t epoch_ns = 1'000'000'000;  ///< FFS: no round is longer than this for the weights' sake
  uint64_t idle_grace_ns = 100'000;  ///< FFS: an idle holder keeps its turn so long
  bool spatial = false;            ///< HPF: yield only as many SMs as are needed, where that works
  uint32_t spatial_extra_sms = 0;  ///< and so many more (FLEP fig. 16)
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;

  /// `decision` comes empty. Every grant must be for a launch of the snapshot.
  virtual void Decide(std::span<const Event> events, const Snapshot& snapshot,
                      Decision& decision) = 0;

  /// The standing decision: whether new work of `requester` may stop `victim` before anybody has
  /// been asked. Of the requester only `priority` and `typical_ns` are there to go by.
  virtual bool MayTake(const Snapshot& snapshot, const ClientView& requester,
                       const ClientView& victim) const = 0;

  /// For whose sake the arbiter may ever hold `client` in its own name, the clients being as they
  /// are.
  virtual HeldFor HoldsFor(const Snapshot& snapshot, const ClientView& client) const;

  /// The longest that a launch of `client` waits before it gets to run, while the clients are as
  /// they are and stop when they are asked to; kNever = no bound.
  virtual uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const = 0;

  /// Where a process that shares its context with another asks that only for the SMs it needs: how
  /// many more it asks for. Nothing: requests are for the whole GPU.
  virtual std::optional<uint32_t> ExtraSms() const { return std::nullopt; }

  /// Completed rounds, where it has rounds.
  virtual uint64_t rounds() const { return 0; }

  /// Its state in one line of "name=value" words, for people.
  virtual std::string Dump() const = 0;
};

/// The names that MakePolicy knows: "hpf", "ffs", "fifo", "reorder", "corun".
std::vector<std::string_view> PolicyNames();

/// Nothing for an unknown name.
std::unique_ptr<Policy> MakePolicy(std::string_view name, const PolicyOptions& options);

/// The largest preemption overhead among launches other than `client`'s.
uint64_t LargestOverhead(const Snapshot& snapshot, ClientId client);

}  // namespace cupola::sched
