#include "sched/arbiter.h"

#include <algorithm>

namespace cupola::sched {
namespace {

// After this time (ns) a client that was asked to yield, and does not say that it has stopped, no longer counts as on
// the GPU: its blocks are hardly that long; more likely its process was stopped by a signal. Until it says that it has
// stopped, or comes with another launch, the core does not wait for it again (Client::answers): the next client would
// be charged this time for nothing.
constexpr uint64_t kLongestDrainNs = 100'000'000;

// While another client may run, one that can be preempted and shares no context counts as off the GPU once it takes
// this many times its overhead_ns to leave (GivesWayAfterNs). Then it is probably waiting itself: the GPU has gone over
// to the other client's context for a time slice, 2 ms on an H200.
constexpr uint64_t kMostOfUsualDrain = 2;

// While some client is leaving, the next review comes after this time (ns), whether that client rings the bell or not.
constexpr uint64_t kDrainReviewNs = 200'000;

}  // namespace

ClientId Arbiter::Join(const ClientSettings& settings) {
  uint32_t index = 0;
  while (index < clients_.size() && clients_[index].used) ++index;
  next_ = nullptr;  // it points into clients_, whose elements may move; Decide finds it again
  if (index == clients_.size()) clients_.emplace_back();
  Client& client = clients_[index];
  client = Client{};
  client.used = true;
  client.view.id = ClientId(index);
  if (resident_ == client.view.id) resident_.reset();  // another client had this number
  Note(EventKind::kJoined, client.view.id);
  Configure(client.view.id, settings);
  return client.view.id;
}

void Arbiter::Leave(ClientId id) {
  if (next_ == &clients_[id.value()]) next_ = nullptr;
  clients_[id.value()] = Client{};
  Note(EventKind::kLeft, id);
}

void Arbiter::Configure(ClientId id, const ClientSettings& settings) {
  Client& client = clients_[id.value()];
  if (settings.paused != client.settings.paused) {
    Note(settings.paused ? EventKind::kPaused : EventKind::kResumed, id);
  }
  client.settings = settings;
  client.view.priority = settings.priority;
  client.view.weight = std::max<uint32_t>(settings.weight, 1);
  SetBound(client);
  client.view.paused = settings.paused;  // plant: pauses_ignored
  Note(EventKind::kSettingsChanged, id);
}

// The bound is the client's latency bound, and the client then goes before all others for as long as the bound is. A
// least share is given by turns of kShareTurnNs: a client that has waited for the time that the others have between two
// of its turns goes before them for one turn. Where a client has both, the shorter wait counts.
void Arbiter::SetBound(Client& client) {
  client.bound_ns = client.before_others_ns = client.settings.latency_bound_ns;
  const uint64_t share = std::min<uint64_t>(client.settings.least_share_percent, 100);
  if (share != 0) {  // plant: least_share_ignored
    const uint64_t wait = std::max<uint64_t>(kShareTurnNs * (100 - share) / share, 1);
    if (client.bound_ns == 0 || wait < client.bound_ns) {
      client.bound_ns = wait;
      client.before_others_ns = kShareTurnNs;
    }
  }
  client.view.latency_bound_ns = client.bound_ns;
}

void Arbiter::SetPolicy(std::unique_ptr<Policy> policy) {
  policy->TakeOver(*policy_);
  policy_ = std::move(policy);
  for (const Client& client : clients_) {
    if (!client.used) continue;
    Note(EventKind::kJoined, client.view.id);
    if (client.active) Note(EventKind::kArrived, client.view.id);
  }
}

bool Arbiter::IsRunning(const Client& client) const {
  return client.active && (client.launch.granted || client.partly_granted ||
                           !client.view.stoppable());
}

// A client that stops only at gates cannot see when it has reached one: it says so when even the longest of its kernels
// must be over. It leaves after the time that it expects, on average, so it is charged that time. Of a client that expects
// nothing, what lies between two gates may take any time.
uint64_t Arbiter::GivesWayAfterNs(const Client& client) {
  if (client.view.shares_context) return kNever;
  if (client.view.can_preempt) return kMostOfUsualDrain * client.launch.overhead_ns;
  return client.leaving_ns != 0 ? client.leaving_ns : kNever;
}

void Arbiter::Charge(Client& client, uint64_t elapsed_ns, uint64_t share_ns) {
  client.view.ran_ns += share_ns;  // plant: time_goes_back
  client.ran_since_word_ns += elapsed_ns;
  client.starving_ns = 0;
  client.overdue_left_ns -= std::min(client.overdue_left_ns, elapsed_ns);
  // A launch that outlives its prediction is expected to need as long again as it is over. Otherwise it would count as
  // nearly done for ever, and come before all launches that wait.
  const bool is_foreseen = client.word_ns > client.ran_since_word_ns;
  client.launch.remaining_ns = is_foreseen ? client.word_ns - client.ran_since_word_ns
                                           : client.ran_since_word_ns - client.word_ns;
  client.launch.foreseen_ns = is_foreseen ? client.launch.remaining_ns : 0;
}

// Returns the part of `elapsed_ns` in which the GPU was still switching to the context of `client`, the only client
// that has the GPU, and counts this part off what is left of the switch (arriving_ns_). If this time were charged,
// clients whose turns are short would lose a larger part of them.
uint64_t Arbiter::TakeSwitchTime(Client& client, uint64_t elapsed_ns) {
  if (client.view.shares_context) return 0;
  if (resident_ != client.view.id) {
    resident_ = client.view.id;
    arriving_ns_ = switch_ns_;
  }
  const uint64_t taken = std::min(arriving_ns_, elapsed_ns);
  arriving_ns_ -= taken;
  return taken;
}

void Arbiter::Advance(uint64_t now_ns) {
  do {
    uint64_t next_ns = now_ns;
    for (const Client& client : clients_) {
      const uint64_t after_ns = GivesWayAfterNs(client);
      if (!client.draining || client.draining_ns >= after_ns) continue;
      next_ns = std::min(next_ns, now_ns_ + std::min(after_ns - client.draining_ns, kLongestDrainNs));
    }
    AdvanceTo(next_ns);
  } while (now_ns_ < now_ns);
}

void Arbiter::AdvanceTo(uint64_t now_ns) {
  const uint64_t elapsed = now_ns > now_ns_ ? now_ns - now_ns_ : 0;
  now_ns_ = std::max(now_ns_, now_ns);
  // A client that is leaving (`draining`) still has the GPU, and is charged. The client that was granted the GPU after
  // it waits until it has left, although it may run. There are two exceptions: a client that shares a context leaves
  // its SMs one by one, and others get them as they are left; and a client that takes too long to leave has given way
  // (HasGivenWay). `exclusive`: a client that is leaving keeps the others off the GPU.
  const bool is_awaited = std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return !client.draining && IsRunning(client);
  });
  const auto leaves = [&](const Client& client) {
    return client.draining && !(is_awaited && HasGivenWay(client));
  };
  bool exclusive = false;
  for (Client& client : clients_) {
    if (client.draining) client.draining_ns += elapsed;
    if (client.draining && client.draining_ns > kLongestDrainNs) client.draining = client.answers = false;
    exclusive = exclusive || (leaves(client) && !client.view.shares_context);
  }
  const auto has_gpu = [&](const Client& client) {
    return leaves(client) || (IsRunning(client) && !exclusive);
  };
  const auto count = static_cast<uint64_t>(std::count_if(clients_.begin(), clients_.end(), has_gpu));
  for (Client& client : clients_) {
    if (!client.active) continue;
    if (has_gpu(client)) {
      const uint64_t ran = elapsed - (count == 1 ? TakeSwitchTime(client, elapsed) : 0);
      Charge(client, ran, ran / count);
    } else {
      client.launch.waited_ns += elapsed;
      client.starving_ns += elapsed;
    }
  }
}

void Arbiter::BeginLaunch(Client& client, const Observation& observation) {
  client.launch = LaunchView{};
  client.launch.client = client.view.id;
  client.launch.sequence = observation.sequence;
  client.launch.expected_ns = observation.remaining_ns;  // the whole launch remains
  client.launch.remaining_ns = observation.remaining_ns;
  client.launch.foreseen_ns = observation.remaining_ns;
  client.launch.arrived_ns = now_ns_;
  client.word_ns = observation.remaining_ns;
  client.answers = true;
  client.ran_since_word_ns = 0;
  client.starving_ns = 0;
  client.overdue_left_ns = 0;
  client.partly_granted = false;
  client.draining = false;
  client.view.typical_ns = client.view.typical_ns == 0
                               ? observation.remaining_ns
                               : (7 * client.view.typical_ns + observation.remaining_ns) / 8;
  Note(EventKind::kArrived, client.view.id);
}

void Arbiter::Observe(ClientId id, const Observation& observation) {
  Client& client = clients_[id.value()];
  client.view.can_preempt = observation.can_preempt;
  client.view.can_gate = observation.can_gate;
  client.view.shares_context = observation.shares_context;
  const bool other = client.active && client.launch.sequence != observation.sequence;
  if (client.active && (!observation.active || other)) {
    Note(EventKind::kFinished, id);
    client.active = false;
    client.launch.granted = false;
    client.partly_granted = false;
    client.draining = false;
  }
  if (!observation.active) return;
  if (!client.active) {
    client.active = true;
    BeginLaunch(client, observation);
  } else if (observation.remaining_ns != client.word_ns) {
    client.word_ns = observation.remaining_ns;
    client.ran_since_word_ns = 0;
    client.launch.remaining_ns = observation.remaining_ns;
    client.launch.foreseen_ns = observation.remaining_ns;
  }
  // A client knows only its own part of the cost: the time from being asked to having left. Until it comes to a gate it does
  // what it would do anyway, for as long as a whole graph perhaps; no more than usual of that is a reason for longer turns.
  const uint64_t switch_ns = observation.shares_context ? 0 : switch_ns_;
  client.leaving_ns = observation.overhead_ns;
  const uint64_t most_ns = observation.can_preempt ? kNever : default_overhead_ns_;
  client.launch.overhead_ns = observation.overhead_ns != 0 ? std::min(observation.overhead_ns, most_ns) + switch_ns
                                                           : default_overhead_ns_;
  client.launch.sms = observation.sms;
  client.stopped = observation.stopped;
  client.answers = client.answers || observation.stopped;
  if (client.draining && observation.stopped) {
    client.draining = false;
    Note(EventKind::kPreempted, id);
  }
}

uint64_t Arbiter::StarvesInNs(const Client& client) const {
  uint64_t overhead = 0;
  for (const Client& other : clients_) {
    if (&other != &client && IsRunning(other)) {
      overhead = std::max(overhead, other.launch.overhead_ns);
    }
  }
  const uint64_t gone = client.starving_ns + overhead;
  const uint64_t bound = client.bound_ns;
  return gone >= bound ? 0 : bound - gone;
}

// A launch that has waited for its client's bound, less what stopping the others takes, goes before all others. It does
// so until it has run for before_others_ns (see SetBound): then the others are due again.
void Arbiter::NoteOverdue(Client& client) {
  if (client.bound_ns == 0) {
    client.overdue_left_ns = 0;
  } else if (client.active && client.overdue_left_ns == 0 && client.starving_ns != 0 &&
             StarvesInNs(client) == 0) {
    client.overdue_left_ns = client.before_others_ns;
  }
  client.launch.priority = client.overdue_left_ns != 0 ? kOverduePriority : client.view.priority;
}

/// Makes the next review come no later than when a client's wait for its bound or its time before all others is over,
/// or when a client that is leaving may have left.
void Arbiter::NoteReviewTimes() {
  for (const Client& client : clients_) {
    if (client.draining) review_ns_ = std::min(review_ns_, now_ns_ + kDrainReviewNs);
    if (!client.active || client.bound_ns == 0) continue;
    if (client.overdue_left_ns != 0) {
      if (client.launch.granted) review_ns_ = std::min(review_ns_, now_ns_ + client.overdue_left_ns);
    } else if (!client.launch.granted && !client.view.paused) {
      review_ns_ = std::min(review_ns_, now_ns_ + StarvesInNs(client));
    }
  }
}

void Arbiter::BuildSnapshot() {
  client_views_.clear();
  launch_views_.clear();
  client_places_.assign(clients_.size(), 0);
  launch_places_.assign(clients_.size(), 0);
  for (Client& client : clients_) {
    if (!client.used) continue;
    NoteOverdue(client);
    client_views_.push_back(client.view);
    client_places_[client.view.id.value()] = static_cast<uint32_t>(client_views_.size());
    if (!client.active || client.view.paused) continue;
    launch_views_.push_back(client.launch);
    launch_places_[client.view.id.value()] = static_cast<uint32_t>(launch_views_.size());
  }
  snapshot_ = {.now_ns = now_ns_,
               .sms = sms_,
               .clients = client_views_,
               .launches = launch_views_,
               .client_places = client_places_,
               .launch_places = launch_places_};
  for (const ClientView& client : client_views_) {
    if (client.priority > snapshot_.highest_priority) snapshot_.clients_of_highest_priority = 0;
    snapshot_.highest_priority = std::max(snapshot_.highest_priority, client.priority);
    snapshot_.clients_of_highest_priority += client.priority == snapshot_.highest_priority;
    snapshot_.clients_with_bound += client.latency_bound_ns != 0;
  }
}

void Arbiter::TakeGrants() {
  std::vector<const Grant*> grants(clients_.size(), nullptr);
  for (const Grant& grant : decision_.grants) {
    const LaunchView* launch = snapshot_.FindLaunch(grant.client);
    if (launch == nullptr || launch->sequence != grant.sequence) {
      ++rejected_grants_;
    } else {
      grants[grant.client.value()] = &grant;
    }
  }
  for (Client& client : clients_) {
    if (!client.used) continue;
    const Grant* grant = grants[client.view.id.value()];
    const bool had_gpu = client.launch.granted || client.partly_granted;
    client.sm_bound = grant != nullptr ? grant->sm_bound : kKeepsAllSms;
    client.launch.granted = grant != nullptr && grant->sm_bound == kKeepsAllSms;
    client.partly_granted = grant != nullptr && grant->sm_bound != kKeepsAllSms;
    if (grant != nullptr) client.draining = false;
    if (client.active && had_gpu && grant == nullptr && client.view.stoppable()) {
      // The client that is granted the GPU now may have asked this one to yield before this review, by the standing
      // decision, and this one may have left already.
      client.draining = !client.stopped && client.answers;
      client.draining_ns = 0;
      if (client.stopped) Note(EventKind::kPreempted, client.view.id);
    }
  }
}

// A client that was granted only some SMs counts as waiting: it may be the next to get all of them.
void Arbiter::FindNext() {
  next_ = nullptr;
  for (const Client& client : clients_) {
    if (!client.active || client.launch.granted || client.view.paused) continue;
    const bool before =
        next_ == nullptr || client.launch.priority > next_->launch.priority ||
        (client.launch.priority == next_->launch.priority &&
         client.launch.remaining_ns < next_->launch.remaining_ns);
    if (before) next_ = &client;
  }
}

void Arbiter::Decide() {
  review_ns_ = kNever;
  BuildSnapshot();
  if (events_.empty()) Note(EventKind::kTick, ClientId());
  decision_.grants.clear();
  decision_.review_ns = kNever;
  decision_.hold_newcomers = false;
  policy_->Decide(events_, snapshot_, decision_);
  events_.clear();
  review_ns_ = std::min(review_ns_, decision_.review_ns);
  TakeGrants();
  FindNext();
  NoteReviewTimes();
}

ClientOrder Arbiter::OrderFor(ClientId id) const {
  const Client& client = clients_[id.value()];
  if (client.partly_granted) return {true, client.sm_bound, &client == next_};
  const bool wanted = client.active || client.view.paused || decision_.hold_newcomers;
  return {wanted && !client.launch.granted && client.view.stoppable(), kWholeGpu,  // plant: holds_stay
          &client == next_};
}

std::optional<Arbiter::TakerKind> Arbiter::TakerKindOf(ClientId requester) const {
  const Client& asks = clients_[requester.value()];
  if (asks.view.paused || (asks.active && asks.partly_granted)) return std::nullopt;
  const bool waits = asks.active && !asks.launch.granted;
  // MayTake below lets a client that waits stop only clients of lower priority, so its predictions do not matter.
  return TakerKind{asks.view.priority, waits ? 0 : asks.view.typical_ns, waits,
                   asks.active && asks.launch.granted};
}

bool Arbiter::MayTake(const TakerKind& requester, ClientId victim) const {
  const Client& yields = clients_[victim.value()];
  if (!yields.view.stoppable()) return false;
  if (requester.waits && IsGranted(victim)) return false;
  // Here the requester waits and the victim does not run. Within one priority the policy compares predictions, and of
  // two clients that wait each may have a reason to stop the other by them. If each asked the other to yield and the
  // daemon died, so that no review took a request back, neither would ever run.
  if (requester.waits && requester.priority <= yields.view.priority) return false;
  if (requester.runs && yields.launch.granted) return false;
  ClientView view;
  view.priority = requester.priority;
  view.typical_ns = requester.typical_ns;
  return policy_->MayTake(snapshot_, view, yields.view);
}

bool Arbiter::MayTake(ClientId requester, ClientId victim) const {
  const std::optional<TakerKind> kind = TakerKindOf(requester);
  return requester != victim && kind && MayTake(*kind, victim);
}

HeldFor Arbiter::HoldsFor(ClientId id) const {
  const ClientView& view = clients_[id.value()].view;
  if (view.paused) return HeldFor::kAnyone;
  return view.stoppable() ? policy_->HoldsFor(snapshot_, view) : HeldFor::kNobody;
}

const LaunchView* Arbiter::LaunchOf(ClientId id) const {
  const Client& client = clients_[id.value()];
  return client.active ? &client.launch : nullptr;
}

uint64_t Arbiter::WaitBound(ClientId id) const {
  return policy_->WaitBound(snapshot_, clients_[id.value()].view);
}

std::string Arbiter::Dump() const {
  std::string text = "policy=" + std::string(policy_->name()) + " " + policy_->Dump() +
                     " now_ns=" + std::to_string(now_ns_) +
                     " rejected_grants=" + std::to_string(rejected_grants_) + "\n";
  for (const Client& client : clients_) {
    if (!client.used) continue;
    text += "client=" + std::to_string(client.view.id.value()) +
            " priority=" + std::to_string(client.view.priority) +
            " weight=" + std::to_string(client.view.weight) +
            " ran_ns=" + std::to_string(client.view.ran_ns);
    if (client.view.paused) text += " paused";
    if (client.active) {
      text += " sequence=" + std::to_string(client.launch.sequence) +
              " T_e=" + std::to_string(client.launch.expected_ns) +
              " T_w=" + std::to_string(client.launch.waited_ns) +
              " T_r=" + std::to_string(client.launch.remaining_ns);
      if (client.launch.granted) text += " granted";
      if (client.partly_granted) text += " granted_above_sm=" + std::to_string(client.sm_bound);
      if (client.draining) text += " draining";
      if (client.overdue_left_ns != 0) text += " overdue";
    }
    text += "\n";
  }
  return text;
}

}  // namespace cupola::sched
