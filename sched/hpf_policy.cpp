#include "sched/hpf_policy.h"

#include <algorithm>

namespace cupola::sched {

const LaunchView* HpfPolicy::Running(const Snapshot& snapshot) const {
  if (!has_running_) return nullptr;
  const LaunchView* launch = snapshot.FindLaunch(running_);
  return launch != nullptr && launch->sequence == running_sequence_ ? launch : nullptr;
}

uint32_t HpfPolicy::TurnsOf(const LaunchView& launch) const {
  const auto known = turns_.find(launch.client);
  return known != turns_.end() && known->second.sequence == launch.sequence ? known->second.count : 0;
}

// A launch has at least twice its predicted time as its own, and at least ten times the cost of stopping it, so that
// this cost is a small part of its time.
uint64_t HpfPolicy::Turn(const LaunchView& launch, uint32_t turns) const {
  const uint64_t first =
      std::max({kFirstTurnNs, 2 * launch.expected_ns, 10 * launch.overhead_ns});
  return first << std::min(turns, kMostDoublings);
}

/// The order of figure 6's queues: by priority, then by remaining time, then by arrival. Within a priority, launches
/// that have had fewer turns come first.
bool HpfPolicy::Before(const LaunchView& a, const LaunchView& b) const {
  if (a.priority != b.priority) return a.priority > b.priority;  // plant: lowest_first
  const uint32_t turns_of_a = TurnsOf(a), turns_of_b = TurnsOf(b);
  if (turns_of_a != turns_of_b) return turns_of_a < turns_of_b;
  if (a.remaining_ns != b.remaining_ns) return a.remaining_ns < b.remaining_ns;
  return a.arrived_ns < b.arrived_ns;
}

const LaunchView* HpfPolicy::FirstWaiting(const Snapshot& snapshot,
                                          const LaunchView* running) const {
  const LaunchView* first = nullptr;
  for (const LaunchView& launch : snapshot.launches) {
    if (&launch != running && (first == nullptr || Before(launch, *first))) first = &launch;
  }
  return first;
}

// Figure 6 reacts to each arrival and each end with the queues in hand. Here the same rule is applied to the launches
// that there are now, so that changed priorities, pauses and several events at once need no cases of their own.
const LaunchView* HpfPolicy::Choose(const Snapshot& snapshot, uint64_t* review_ns) {
  const LaunchView* running = Running(snapshot);
  const LaunchView* waiting = FirstWaiting(snapshot, running);
  if (running == nullptr) return waiting;
  if (waiting == nullptr || waiting->priority < running->priority) return running;
  if (waiting->priority > running->priority) return waiting;
  if (Pays(*running, *waiting)) return waiting;
  const uint32_t turns = TurnsOf(*running);
  const uint64_t used = snapshot.FindClient(running_)->ran_ns - turn_start_ran_ns_;
  const uint64_t turn = Turn(*running, turns);
  if (used < turn) {
    *review_ns = snapshot.now_ns + (turn - used);
    return running;
  }
  turns_[running_] = {running->sequence, std::min(turns + 1, kMostDoublings)};
  turn_start_ran_ns_ += used;
  waiting = FirstWaiting(snapshot, running);
  if (TurnsOf(*waiting) <= TurnsOf(*running)) return waiting;
  *review_ns = snapshot.now_ns + Turn(*running, TurnsOf(*running));
  return running;
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
    // The launch that had the GPU keeps what is left of it, because starting another one there would cost more.
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

void HpfPolicy::Decide(std::span<const Event> events, const Snapshot& snapshot,
                       Decision& decision) {
  for (const Event& event : events) {
    if (event.kind == EventKind::kLeft) turns_.erase(event.client);
  }
  const LaunchView* chosen = Choose(snapshot, &decision.review_ns);
  if (chosen == nullptr) {
    has_running_ = false;
    return;
  }
  decision.grants.push_back({chosen->client, chosen->sequence, Variant::kAny, 0, kKeepsAllSms});
  AddBeside(snapshot, *chosen, decision);
  const bool goes_on =
      has_running_ && running_ == chosen->client && running_sequence_ == chosen->sequence;
  if (!goes_on) turn_start_ran_ns_ = snapshot.FindClient(chosen->client)->ran_ns;
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
  return launch->foreseen_ns > requester.typical_ns + launch->overhead_ns;
}

HeldFor HpfPolicy::HoldsFor(const Snapshot& snapshot, const ClientView& client) const {
  const ClientView* const self = snapshot.FindClient(client.id);
  const uint32_t own_bound = self != nullptr && self->latency_bound_ns != 0 ? 1 : 0;
  if (snapshot.highest_priority > client.priority || snapshot.clients_with_bound > own_bound) return HeldFor::kAnyone;
  const bool counts_itself = self != nullptr && self->priority == snapshot.highest_priority;
  const uint32_t equals = snapshot.clients_of_highest_priority - (counts_itself ? 1 : 0);
  return snapshot.highest_priority == client.priority && equals != 0 ? HeldFor::kEquals : HeldFor::kNobody;
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
