// QueuePolicy: the two policies that FLEP is compared with. They run one launch at a time and never
// preempt it: first come, first served ("fifo"), and kernel reordering ("reorder"), which starts
// the shortest of the launches that wait (FLEP section 6.3.2). MakePolicy creates it; it belongs to
// one GPU's Arbiter and is not thread-safe.
#pragma once

#include "sched/policy.h"

namespace cupola::sched {

enum class QueueOrder : uint8_t { kArrival, kShortestFirst };

class QueuePolicy : public Policy {
 public:
  explicit QueuePolicy(QueueOrder order) : order_(order) {}

  std::string_view name() const override {
    return order_ == QueueOrder::kArrival ? "fifo" : "reorder";
  }
  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override;
  bool MayTake(const Snapshot&, const ClientView&, const ClientView&) const override {
    return false;
  }
  uint64_t WaitBound(const Snapshot&, const ClientView&) const override { return kNever; }
  std::string Dump() const override;

 private:
  bool Before(const LaunchView& a, const LaunchView& b) const;

  QueueOrder order_;
  bool has_running_ = false;
  ClientId running_;
  uint64_t running_sequence_ = 0;
};

}  // namespace cupola::sched
