#include "sched/queue_policy.h"

namespace cupola::sched {

bool QueuePolicy::Before(const LaunchView& a, const LaunchView& b) const {
  if (order_ == QueueOrder::kShortestFirst && a.expected_ns != b.expected_ns) {
    return a.expected_ns < b.expected_ns;
  }
  if (a.arrived_ns != b.arrived_ns) return a.arrived_ns < b.arrived_ns;
  return a.client < b.client;
}

void QueuePolicy::Decide(std::span<const Event>, const Snapshot& snapshot, Decision& decision) {
  const LaunchView* chosen = has_running_ ? snapshot.FindLaunch(running_) : nullptr;
  if (chosen != nullptr && chosen->sequence != running_sequence_) chosen = nullptr;
  if (chosen == nullptr) {
    for (const LaunchView& launch : snapshot.launches) {
      if (chosen == nullptr || Before(launch, *chosen)) chosen = &launch;
    }
  }
  has_running_ = chosen != nullptr;
  if (chosen == nullptr) return;
  running_ = chosen->client;
  running_sequence_ = chosen->sequence;
  decision.grants.push_back({chosen->client, chosen->sequence, Variant::kAny, 0, kKeepsAllSms});
}

std::string QueuePolicy::Dump() const {
  return has_running_ ? "running=" + std::to_string(running_.value()) : "running=none";
}

}  // namespace cupola::sched
