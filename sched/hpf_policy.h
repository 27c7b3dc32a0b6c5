// HPF: highest priority first; within a priority the shortest remaining time, preempting only when
// that pays. FLEP figure 6 and section 5.2.1. Spatial preemption (section 4.1) where the kernels share
// a context and the one to run needs few SMs.
//
// Figure 6 takes predictions for true. Where they are not (a launch outlives its own, a burst goes on and
// on), equals take turns, whose length doubles with each that a launch has had: it is stopped for its
// equals only so often as the logarithm of its length says, and none waits for ever.
#pragma once

#include <map>

#include "sched/policy.h"

namespace cupola::sched {

class HpfPolicy : public Policy {
 public:
  explicit HpfPolicy(const PolicyOptions& options) : options_(options) {}

  /// GPU time that a launch has, at least, before it is stopped for equals that it is not foreseen to
  /// outlive; doubled with each turn up to kMostDoublings times.
  static constexpr uint64_t kFirstTurnNs = 100'000'000;
  static constexpr uint32_t kMostDoublings = 4;

  std::string_view name() const override { return "hpf"; }
  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override;
  /// A higher priority; or the same, where a typical launch of the requester is so short that
  /// preempting the victim pays.
  bool MayTake(const Snapshot& snapshot, const ClientView& requester,
               const ClientView& victim) const override;
  std::optional<uint32_t> ExtraSms() const override {
    return options_.spatial ? std::optional(options_.spatial_extra_sms) : std::nullopt;
  }
  /// Anyone, where another has a higher priority or a bound on its latency; equals, where the same one.
  HeldFor HoldsFor(const Snapshot& snapshot, const ClientView& client) const override;
  uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const override;
  std::string Dump() const override;

 protected:
  /// Figure 6, schedule_for_queue: whether `waiting` is to run instead of `running` of the same
  /// priority. By what is foreseen alone: of many equal launches each outlives its prediction when the
  /// machine is busy, and they would stop one another all the time.
  virtual bool Pays(const LaunchView& running, const LaunchView& waiting) const {
    return waiting.foreseen_ns != 0 &&
           running.foreseen_ns > waiting.foreseen_ns + running.overhead_ns;
  }
  /// GPU time of the turn of `launch` that comes after so many.
  virtual uint64_t Turn(const LaunchView& launch, uint32_t turns) const;

 private:
  /// The turns that the launch at a client's head has had.
  struct Turns {
    uint64_t sequence = 0;
    uint32_t count = 0;
  };

  const LaunchView* Running(const Snapshot& snapshot) const;
  uint32_t TurnsOf(const LaunchView& launch) const;
  bool Before(const LaunchView& a, const LaunchView& b) const;
  const LaunchView* FirstWaiting(const Snapshot& snapshot, const LaunchView* running) const;
  /// The launch that gets the GPU; `review_ns` becomes when its turn ends, where an equal waits.
  const LaunchView* Choose(const Snapshot& snapshot, uint64_t* review_ns);
  void AddBeside(const Snapshot& snapshot, const LaunchView& chosen, Decision& decision) const;

  PolicyOptions options_;
  bool has_running_ = false;
  ClientId running_;
  uint64_t running_sequence_ = 0;
  uint64_t turn_start_ran_ns_ = 0;  ///< of the client that runs: its ran_ns when its turn began
  std::map<ClientId, Turns> turns_;
};

}  // namespace cupola::sched
