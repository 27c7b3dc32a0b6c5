// HPF: highest priority first; within a priority the shortest remaining time, preempting only when
// that pays. FLEP figure 6 and section 5.2.1. Spatial preemption (section 4.1) where the kernels share
// a context and the one to run needs few SMs.
#pragma once

#include "sched/policy.h"

namespace cupola::sched {

class HpfPolicy : public Policy {
 public:
  explicit HpfPolicy(const PolicyOptions& options) : options_(options) {}

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
  /// priority.
  virtual bool Pays(const LaunchView& running, const LaunchView& waiting) const {
    return running.remaining_ns > waiting.remaining_ns + running.overhead_ns;
  }

 private:
  const LaunchView* Running(const Snapshot& snapshot) const;
  /// The launch that gets the GPU.
  const LaunchView* Choose(const Snapshot& snapshot) const;
  void AddBeside(const Snapshot& snapshot, const LaunchView& chosen, Decision& decision) const;

  PolicyOptions options_;
  bool has_running_ = false;
  ClientId running_;
  uint64_t running_sequence_ = 0;
};

}  // namespace cupola::sched
