#include "sched/policy.h"

#include <algorithm>

#include "sched/corun_policy.h"
#include "sched/ffs_policy.h"
#include "sched/hpf_policy.h"
#include "sched/queue_policy.h"

namespace cupola::sched {

std::vector<std::string_view> PolicyNames() { return {"hpf", "ffs", "fifo", "reorder", "corun"}; }

std::unique_ptr<Policy> MakePolicy(std::string_view name, const PolicyOptions& options) {
  if (name == "hpf") return std::make_unique<HpfPolicy>(options);
  if (name == "ffs") return std::make_unique<FfsPolicy>(options);
  if (name == "fifo") return std::make_unique<QueuePolicy>(QueueOrder::kArrival);
  if (name == "reorder") return std::make_unique<QueuePolicy>(QueueOrder::kShortestFirst);
  if (name == "corun") return std::make_unique<CorunPolicy>();
  return nullptr;
}

HeldFor Policy::HoldsFor(const Snapshot& snapshot, const ClientView& client) const {
  const bool has_others =
      std::any_of(snapshot.clients.begin(), snapshot.clients.end(),
                  [&](const ClientView& other) { return other.id != client.id; });
  return has_others ? HeldFor::kAnyone : HeldFor::kNobody;
}

uint64_t LargestOverhead(const Snapshot& snapshot, ClientId client) {
  uint64_t largest = 0;
  for (const LaunchView& launch : snapshot.launches) {
    if (launch.client != client) largest = std::max(largest, launch.overhead_ns);
  }
  return largest;
}

}  // namespace cupola::sched
