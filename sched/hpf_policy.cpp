#include "sched/hpf_policy.h"

#include <algorithm>

namespace cupola::sched {
namespace {

/// The order of figure 6's queues: by priority, in a queue by remaining time; then who came first.
bool Before(const LaunchView& a, const LaunchView& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (a.remaining_ns != b.remaining_ns) return a.remaining_ns < b.remaining_ns;
  return a.arrived_ns < b.arrived_ns;
}

}  // namespace

const LaunchView* HpfPolicy::Running(const Snapshot& snapshot) const {
  if (!has_running_) return nullptr;
  const LaunchView* launch = snapshot.FindLaunch(running_);
  return launch != nullptr && launch->sequence == running_sequence_ ? launch : nullptr;
}

// Figure 6 reacts to each arrival and each end with the queues in hand; here the same rule is applied
// to what there is now, so that changed priorities, pauses and several events at once need no cases.
const LaunchView* HpfPolicy::Choose(const Snapshot& snapshot) const {
  const LaunchView* running = Running(snapshot);
  const LaunchView* waiting = nullptr;
  for (const LaunchView& launch : snapshot.launches) {
    if (&launch == running) continue;
    if (waiting == nullptr || Before(launch, *waiting)) waiting = &launch;
  }
  if (running == nullptr) return waiting;
  if (waiting == nullptr || waiting->priority < running->priority) return running;
  if (waiting->priority > running->priority) return waiting;
  return Pays(*running, *waiting) ? waiting : running;
}

void HpfPolicy::AddBeside(const Snapshot& snapshot, const LaunchView& chosen,
                          Decision& decision) const {
  const ClientView* client = snapshot.FindClient(chosen.client);
  if (!options_.spatial || snapshot.sms == 0 || client == nullptr || !client->shares_context) return;
  const uint32_t needed = chosen.sms + options_.spatial_extra_sms;
  if (chosen.sms == 0 || chosen.sms >= kWholeGpu || needed >= snapshot.sms) return;
  const LaunchView* beside = nullptr;
  for (const LaunchView& launch : snapshot.launches) {
    const ClientView* other = snapshot.FindClient(launch.client);
    if (launch.client == chosen.client || other == nullptr || !other->shares_context ||
        !other->can_preempt) {
      continue;
    }
    // Who had the GPU keeps what is left of it; starting another there would cost more.
    const bool had_it = has_running_ && launch.client == running_;
    if (had_it) {
      beside = &launch;
      break;
    }
    if (beside == nullptr || Before(launch, *beside)) beside = &launch;
  }
  if (beside == nullptr) return;
  decision.grants.push_back({beside->client, beside->sequence, Variant::kPreemptible, 0, needed});
}

void HpfPolicy::Decide(std::span<const Event>, const Snapshot& snapshot, Decision& decision) {
  const LaunchView* chosen = Choose(snapshot);
  if (chosen == nullptr) {
    has_running_ = false;
    return;
  }
  decision.grants.push_back({chosen->client, chosen->sequence, Variant::kAny, 0, kKeepsAllSms});
  AddBeside(snapshot, *chosen, decision);
  has_running_ = true;
  running_ = chosen->client;
  running_sequence_ = chosen->sequence;
}

bool HpfPolicy::MayTake(const Snapshot& snapshot, const ClientView& requester,
                        const ClientView& victim) const {
  const LaunchView* launch = snapshot.FindLaunch(victim.id);
  const int32_t priority = launch != nullptr ? launch->priority : victim.priority;
  if (requester.priority != priority) return requester.priority > priority;
  if (launch == nullptr || requester.typical_ns == 0) return false;
  return launch->remaining_ns > requester.typical_ns + launch->overhead_ns;
}

HeldFor HpfPolicy::HoldsFor(const Snapshot& snapshot, const ClientView& client) const {
  HeldFor held_for = HeldFor::kNobody;
  for (const ClientView& other : snapshot.clients) {
    if (other.id == client.id) continue;
    if (other.priority > client.priority || other.latency_bound_ns != 0) return HeldFor::kAnyone;
    if (other.priority == client.priority) held_for = HeldFor::kEquals;
  }
  return held_for;
}

uint64_t HpfPolicy::WaitBound(const Snapshot& snapshot, const ClientView& client) const {
  const bool first = std::none_of(
      snapshot.clients.begin(), snapshot.clients.end(), [&](const ClientView& other) {
        return other.id != client.id && other.priority >= client.priority;
      });
  const uint64_t overhead = LargestOverhead(snapshot, client.id);
  if (first) return overhead;
  return client.latency_bound_ns != 0 ? client.latency_bound_ns + overhead : kNever;
}

std::string HpfPolicy::Dump() const {
  return has_running_ ? "running=" + std::to_string(running_.value()) + " sequence=" +
                            std::to_string(running_sequence_)
                      : "running=none";
}

}  // namespace cupola::sched
