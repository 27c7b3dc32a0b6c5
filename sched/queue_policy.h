// The policies that FLEP is compared with: one launch at a time, never preempted. First come, first
// served; and kernel reordering, which starts the shortest of those that wait (FLEP 6.3.2).
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
