// Policy: decides who may run. It receives events and a snapshot, answers with a set of grants, and keeps only what it
// needs to know of the past. The same objects run in the daemon, in unit tests, and in the simulation in virtual time.
// Made by MakePolicy, owned by the Arbiter of one GPU; not thread-safe.
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

/// The settings of policies.
struct PolicyOptions {
  double max_overhead = 0.10;      ///< FFS: sum(O_i) / (T * sum(W_i)) stays below it
  uint64_t quantum_ns = 500'000;   ///< FFS: no turn is shorter; a shorter one would be lost between reviews
  uint64_t epoch_ns = 1'000'000'000;  ///< FFS: the weights make no round longer than this
  uint64_t idle_grace_ns = 100'000;  ///< FFS: how long an idle holder keeps its turn
  bool spatial = false;            ///< HPF: a victim yields only as many SMs as are needed, where that works
  uint32_t spatial_extra_sms = 0;  ///< HPF: SMs that it yields beside those (FLEP figure 16)
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;

  /// This object replaces `before`, for the same clients. It takes over what `before` knew of them where that was a policy
  /// of its own kind. Called before the first Decide, if at all.
  virtual void TakeOver(const Policy& before) { (void)before; }

  /// `decision` comes empty. Every grant must name a launch of the snapshot.
  virtual void Decide(std::span<const Event> events, const Snapshot& snapshot,
                      Decision& decision) = 0;

  /// The standing decision: whether new work of `requester` may ask `victim` to yield before a review. Of the requester
  /// only `priority` and `typical_ns` are set.
  virtual bool MayTake(const Snapshot& snapshot, const ClientView& requester,
                       const ClientView& victim) const = 0;

  /// For whose sake the daemon may come to ask `client` to yield in its own name, as the clients are now.
  virtual HeldFor HoldsFor(const Snapshot& snapshot, const ClientView& client) const;

  /// The longest time in ns that a launch of `client` waits before it runs, as the clients are now, if they stop when
  /// they are asked to; kNever = no bound.
  virtual uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const = 0;

  /// Processes that share a context may ask each other for only the SMs that they need. This is how many more than
  /// those they ask for. Nothing: every request is for the whole GPU.
  virtual std::optional<uint32_t> ExtraSms() const { return std::nullopt; }

  /// Completed rounds; 0 for a policy that has none.
  virtual uint64_t rounds() const { return 0; }

  /// The policy's state in one line of "name=value" words, for people.
  virtual std::string Dump() const = 0;
};

/// The names that MakePolicy knows: "hpf", "ffs", "fifo", "reorder", "corun".
std::vector<std::string_view> PolicyNames();

/// nullptr for an unknown name.
std::unique_ptr<Policy> MakePolicy(std::string_view name, const PolicyOptions& options);

/// The largest preemption overhead, in ns, among the launches of clients other than `client`.
uint64_t LargestOverhead(const Snapshot& snapshot, ClientId client);

}  // namespace cupola::sched
