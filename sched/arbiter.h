// Arbiter: the core that keeps the state of one GPU's clients, asks the policy and says what each
// client is to be told. Pure: the caller brings the time and what it sees of the clients, and carries
// the orders out. Not thread-safe.
//
// One review is: Advance(now); Observe() for each client; Decide(); then OrderFor() and MayTake().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sched/policy.h"

namespace cupola::sched {

/// What an operator sets for a client.
struct ClientSettings {
  int32_t priority = 0;
  uint32_t weight = 1;
  uint64_t latency_bound_ns = 0;  ///< 0 = none
  uint32_t least_share_percent = 0;  ///< of the GPU's time while it waits for it, whatever priorities say; 0 = none
  bool paused = false;
  bool operator==(const ClientSettings&) const = default;
};

/// What can be seen of a client.
struct Observation {
  bool active = false;         ///< wants the GPU
  uint64_t sequence = 0;       ///< changes with each launch or burst of launches
  uint64_t remaining_ns = 0;   ///< the client's latest prediction
  uint64_t overhead_ns = 0;    ///< of stopping it, without the change of contexts; 0 = unknown
  uint32_t sms = kWholeGpu;
  bool stopped = false;        ///< has yielded what it was asked
  bool can_preempt = false;
  bool can_gate = false;
  bool shares_context = false;
};

/// What a client is to be told.
struct ClientOrder {
  bool hold = false;              ///< is to yield the SMs below sm_bound
  uint32_t sm_bound = kWholeGpu;  ///< kWholeGpu = all of them
  /// It is the next to run: where a client that runs has asked it to yield, that request is enough,
  /// and it goes on the moment that client takes its request back.
  bool is_next = false;
};

class Arbiter {
 public:
  /// GPU time of a turn that a client has for its least share: what stopping others and changing contexts takes is to
  /// be a small part of it.
  static constexpr uint64_t kShareTurnNs = 2'000'000;

  /// `default_overhead_ns`: cost of preempting a client that does not know its own, all in all.
  Arbiter(std::unique_ptr<Policy> policy, uint64_t default_overhead_ns)
      : policy_(std::move(policy)), default_overhead_ns_(default_overhead_ns) {}

  ClientId Join(const ClientSettings& settings);
  void Leave(ClientId id);
  void Configure(ClientId id, const ClientSettings& settings);
  void SetPolicy(std::unique_ptr<Policy> policy);
  void SetDefaultOverhead(uint64_t overhead_ns) { default_overhead_ns_ = overhead_ns; }
  void SetSms(uint32_t sms) { sms_ = sms; }
  /// What the GPU takes to go over from one context to another: part of what stopping a client costs,
  /// charged to nobody. Clients that share a context need none.
  void SetSwitchTime(uint64_t switch_ns) { switch_ns_ = switch_ns; }

  /// Accounts for the time since the last call. Time that goes backwards counts as none.
  void Advance(uint64_t now_ns);
  void Observe(ClientId id, const Observation& observation);
  void Decide();

  /// When the next review is due at the latest, if nothing happens; kNever = when something does.
  uint64_t review_ns() const { return review_ns_; }
  ClientOrder OrderFor(ClientId id) const;
  /// Whether new work of `requester` may stop `victim` at once.
  bool MayTake(ClientId requester, ClientId victim) const;
  /// What that depends on of the requester: those of one kind may take the same others, themselves left
  /// out. Nothing: it may take nobody.
  struct TakerKind {
    int32_t priority = 0;
    uint64_t typical_ns = 0;
    bool waits = false, runs = false;
    bool operator==(const TakerKind&) const = default;
  };
  std::optional<TakerKind> TakerKindOf(ClientId requester) const;
  /// MayTake of a client of that kind, other than the victim.
  bool MayTake(const TakerKind& requester, ClientId victim) const;
  /// For whose sake an order to hold the client may ever come.
  HeldFor HoldsFor(ClientId id) const;

  const Policy& policy() const { return *policy_; }
  const Decision& decision() const { return decision_; }
  const Snapshot& snapshot() const { return snapshot_; }
  const ClientSettings& settings(ClientId id) const { return clients_[id.value()].settings; }
  const ClientView& ViewOf(ClientId id) const { return clients_[id.value()].view; }
  bool IsGranted(ClientId id) const { return clients_[id.value()].launch.granted ||
                                             clients_[id.value()].partly_granted; }
  /// The launch of a client that wants the GPU; nullptr: it does not.
  const LaunchView* LaunchOf(ClientId id) const;
  /// Longest wait that the policy promises it; kNever = none.
  uint64_t WaitBound(ClientId id) const;
  /// Grants that named no launch of the snapshot: a broken policy.
  uint64_t rejected_grants() const { return rejected_grants_; }

  /// All of the state, a line for the policy and one for each client, for people.
  std::string Dump() const;

 private:
  struct Client {
    bool used = false;
    ClientSettings settings;
    ClientView view;
    bool active = false;
    bool stopped = false;
    LaunchView launch;            // meaningful while active
    bool partly_granted = false;  // may run, on some SMs
    uint32_t sm_bound = kKeepsAllSms;
    bool draining = false;        // was granted, is held, has not yet stopped
    uint64_t draining_ns = 0;
    bool answers = true;          // false: it has not within kLongestDrainNs, and given no sign of life since
    uint64_t word_ns = 0;         // the client's last prediction of what remains
    uint64_t ran_since_word_ns = 0;
    uint64_t starving_ns = 0;     // since it last had the GPU
    uint64_t bound_ns = 0;        // that it may starve, by its latency bound or its least share; 0 = none
    uint64_t before_others_ns = 0;  // GPU time that it has before others then
    uint64_t overdue_left_ns = 0;   // of that, what is left
  };

  bool IsRunning(const Client& client) const;
  /// Of one that is leaving: the next one has the GPU meanwhile.
  bool HasGivenWay(const Client& client) const;
  void Charge(Client& client, uint64_t elapsed_ns, uint64_t share_ns);
  uint64_t TakeSwitchTime(Client& client, uint64_t elapsed_ns);
  void BeginLaunch(Client& client, const Observation& observation);
  uint64_t StarvesInNs(const Client& client) const;
  static void SetBound(Client& client);
  void NoteOverdue(Client& client);
  void NoteReviewTimes();
  void BuildSnapshot();
  void TakeGrants();
  void FindNext();
  void Note(EventKind kind, ClientId id) { events_.push_back({kind, id}); }

  std::unique_ptr<Policy> policy_;
  uint64_t default_overhead_ns_;
  uint64_t switch_ns_ = 0;
  std::optional<ClientId> resident_;  // whose context the GPU was given last
  uint64_t arriving_ns_ = 0;          // that it still needs to get there
  uint32_t sms_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t review_ns_ = kNever;
  std::vector<Client> clients_;  // by ClientId
  std::vector<Event> events_;
  std::vector<ClientView> client_views_;
  std::vector<LaunchView> launch_views_;
  std::vector<uint32_t> client_places_, launch_places_;
  Snapshot snapshot_;
  Decision decision_;
  const Client* next_ = nullptr;  // of those held: first by priority, then by remaining time
  uint64_t rejected_grants_ = 0;
};

}  // namespace cupola::sched
