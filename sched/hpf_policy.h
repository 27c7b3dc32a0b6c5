// HpfPolicy: HPF, highest priority first; within a priority the shortest remaining time first, with preemption only
// where it pays (FLEP figure 6 and section 5.2.1). Preemption is spatial (FLEP section 4.1) where the kernels share a
// context and the one to run needs few SMs. MakePolicy creates it; the Arbiter of one GPU owns and calls it (policy.h).
// Not thread-safe.
//
// Figure 6 takes predictions for true. Where they are wrong (a launch outlives its prediction, or a burst does not
// end), launches of equal priority take turns. The turn of a launch doubles with each turn that it has had. So a launch
// is stopped for its equals only about as often as the logarithm of its length, and none waits for ever.
#pragma once

#include <map>

#include "sched/policy.h"

namespace cupola::sched {

class HpfPolicy : public Policy {
 public:
  explicit HpfPolicy(const PolicyOptions& options) : options_(options) {}

  /// GPU time that a launch has, at least, before it is stopped for launches of its priority that its prediction gives
  /// no reason to prefer. It doubles with each turn, up to kMostDoublings times.
  static constexpr uint64_t kFirstTurnNs = 100'000'000;
  static constexpr uint32_t kMostDoublings = 4;

  std::string_view name() const override { return "hpf"; }
  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override;
  /// Whether the requester has a higher priority, or the same priority and so short a typical launch that preempting
  /// the victim pays.
  bool MayTake(const Snapshot& snapshot, const ClientView& requester,
               const ClientView& victim) const override;
  std::optional<uint32_t> ExtraSms() const override {
    return options_.spatial ? std::optional(options_.spatial_extra_sms) : std::nullopt;
  }
  /// kAnyone where another client has a higher priority or a latency bound; else kEquals where one has the same
  /// priority.
  HeldFor HoldsFor(const Snapshot& snapshot, const ClientView& client) const override;
  uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const override;
  std::string Dump() const override;

 protected:
  /// FLEP figure 6, schedule_for_queue: whether `waiting` is to run in place of `running`, which has the same priority.
  /// Only foreseen_ns counts: when the machine is busy each of many equal launches outlives its prediction, and by
  /// remaining_ns they would stop one another all the time.
  virtual bool Pays(const LaunchView& running, const LaunchView& waiting) const {
    return waiting.foreseen_ns != 0 &&
           running.foreseen_ns > waiting.foreseen_ns + running.overhead_ns;
  }
  /// GPU time of the next turn of `launch`, which has had `turns` turns.
  virtual uint64_t Turn(const LaunchView& launch, uint32_t turns) const;

 private:
  /// The number of turns that the launch at a client's head has had.
  struct Turns {
    uint64_t sequence = 0;
    uint32_t count = 0;
  };

  const LaunchView* Running(const Snapshot& snapshot) const;
  uint32_t TurnsOf(const LaunchView& launch) const;
  bool Before(const LaunchView& a, const LaunchView& b) const;
  const LaunchView* FirstWaiting(const Snapshot& snapshot, const LaunchView* running) const;
  /// The launch that gets the GPU. Where an equal waits, `review_ns` becomes the time when its turn ends.
  const LaunchView* Choose(const Snapshot& snapshot, uint64_t* review_ns);
  void AddBeside(const Snapshot& snapshot, const LaunchView& chosen, Decision& decision) const;

  PolicyOptions options_;
  bool has_running_ = false;
  ClientId running_;
  uint64_t running_sequence_ = 0;
  uint64_t turn_start_ran_ns_ = 0;  ///< ran_ns of the running client when its turn began
  std::map<ClientId, Turns> turns_;
};

}  // namespace cupola::sched
