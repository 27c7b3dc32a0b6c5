#include "sched/corun_policy.h"

#include <algorithm>

namespace cupola::sched {

void CorunPolicy::Decide(std::span<const Event>, const Snapshot& snapshot, Decision& decision) {
  std::vector<const LaunchView*> order;
  for (const LaunchView& launch : snapshot.launches) order.push_back(&launch);
  std::stable_sort(order.begin(), order.end(), [](const LaunchView* a, const LaunchView* b) {
    return a->granted != b->granted ? a->granted : a->arrived_ns < b->arrived_ns;
  });
  running_.clear();
  for (const LaunchView* launch : order) {
    const ClientView* client = snapshot.FindClient(launch->client);
    const ClientView* first = running_.empty() ? client : snapshot.FindClient(running_.front());
    const bool fits = running_.empty() || (client->shares_context && first->shares_context);
    if (!fits) continue;
    running_.push_back(launch->client);
    if (running_.size() == 2) break;
  }
  for (const ClientId id : running_) {
    const LaunchView* launch = snapshot.FindLaunch(id);
    const bool pair = running_.size() == 2;
    decision.grants.push_back({id, launch->sequence, pair ? Variant::kPreemptible : Variant::kAny,
                               pair ? 1U : 0U, kKeepsAllSms});
  }
}

std::string CorunPolicy::Dump() const {
  std::string text = "running=";
  for (const ClientId id : running_) {
    if (text.back() != '=') text += '+';
    text += std::to_string(id.value());
  }
  return running_.empty() ? text + "none" : text;
}

}  // namespace cupola::sched
