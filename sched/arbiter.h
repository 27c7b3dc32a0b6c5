// Arbiter: the core that keeps the state of one GPU's clients, asks the policy who may run, and says what each client
// is to be told. The daemon's GpuArbiter owns one (so do tests and the simulation). The Arbiter is pure: its caller
// brings the time and what it sees of the clients, and carries the orders out. Not thread-safe.
//
// One review is: Advance(now); Observe() for each client; Decide(); then OrderFor() and MayTake() for each client.
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
  /// Percent of the GPU's time that the client gets while it waits for the GPU, whatever the priorities; 0 = none.
  uint32_t least_share_percent = 0;
  bool paused = false;
  bool operator==(const ClientSettings&) const = default;
};

/// What the caller sees of a client at a review.
struct Observation {
  bool active = false;         ///< the client wants the GPU
  uint64_t sequence = 0;       ///< changes with each launch or burst
  uint64_t remaining_ns = 0;   ///< the client's latest prediction of what its launch still needs
  uint64_t overhead_ns = 0;    ///< predicted time to stop it, without the switch of contexts; 0 = unknown
  uint32_t sms = kWholeGpu;    ///< SMs that its launch needs
  bool stopped = false;        ///< it has yielded what it was asked to yield
  bool can_preempt = false;    ///< it can stop running kernels at block boundaries
  bool can_gate = false;       ///< it can stop between kernels
  bool shares_context = false;  ///< MPS: its kernels can run beside those of other such clients
};

/// What a client is to be told.
struct ClientOrder {
  bool hold = false;              ///< the client is to yield the SMs below sm_bound
  uint32_t sm_bound = kWholeGpu;  ///< kWholeGpu = all SMs
  /// The client is the next to run. Where a client that runs has asked it to yield, that request is enough: the client
  /// goes on the moment that request is taken back.
  bool is_next = false;
};

class Arbiter {
 public:
  /// GPU time of a turn that a client gets for its least share. It is long enough that stopping others and switching
  /// contexts is a small part of it.
  static constexpr uint64_t kShareTurnNs = 2'000'000;

  /// `default_overhead_ns`: the whole cost of preempting a client that does not know its own cost.
  Arbiter(std::unique_ptr<Policy> policy, uint64_t default_overhead_ns)
      : policy_(std::move(policy)), default_overhead_ns_(default_overhead_ns) {}

  ClientId Join(const ClientSettings& settings);
  void Leave(ClientId id);
  void Configure(ClientId id, const ClientSettings& settings);
  /// From now on `policy` decides. It takes over from the one before what both can know (Policy::TakeOver).
  void SetPolicy(std::unique_ptr<Policy> policy);
  void SetDefaultOverhead(uint64_t overhead_ns) { default_overhead_ns_ = overhead_ns; }
  void SetSms(uint32_t sms) { sms_ = sms; }
  /// How long the GPU takes to switch from one context to another. This time is part of the cost of stopping a client,
  /// and is charged to no client. Clients that share a context need no switch.
  void SetSwitchTime(uint64_t switch_ns) { switch_ns_ = switch_ns; }

  /// Accounts for the time since the last call. A time before that of the last call counts as no time passed.
  void Advance(uint64_t now_ns);
  void Observe(ClientId id, const Observation& observation);
  void Decide();

  /// The time at which the next review is due at the latest; kNever = none is due until something happens.
  uint64_t review_ns() const { return review_ns_; }
  ClientOrder OrderFor(ClientId id) const;
  /// Whether new work of `requester` may ask `victim` to yield without waiting for a review.
  bool MayTake(ClientId requester, ClientId victim) const;
  /// The properties of a requester on which MayTake depends. Requesters of one kind may stop the same victims, except
  /// that none may stop itself.
  struct TakerKind {
    int32_t priority = 0;
    uint64_t typical_ns = 0;  ///< ClientView::typical_ns; 0 for one that waits, where only the priority counts
    bool waits = false;       ///< it wants the GPU and is not granted it
    bool runs = false;        ///< it is granted the GPU
    bool operator==(const TakerKind&) const = default;
  };
  /// Nothing: the requester may stop nobody.
  std::optional<TakerKind> TakerKindOf(ClientId requester) const;
  /// MayTake for any client of that kind other than the victim.
  bool MayTake(const TakerKind& requester, ClientId victim) const;
  /// For whose sake the daemon may come to ask this client to yield in its own name, as the clients are now.
  HeldFor HoldsFor(ClientId id) const;

  const Policy& policy() const { return *policy_; }
  const Decision& decision() const { return decision_; }
  const Snapshot& snapshot() const { return snapshot_; }
  const ClientSettings& settings(ClientId id) const { return clients_[id.value()].settings; }
  const ClientView& ViewOf(ClientId id) const { return clients_[id.value()].view; }
  bool IsGranted(ClientId id) const { return clients_[id.value()].launch.granted ||
                                             clients_[id.value()].partly_granted; }
  /// The launch of a client that wants the GPU; nullptr = the client does not want it.
  const LaunchView* LaunchOf(ClientId id) const;
  /// The longest wait in ns that the policy promises the client; kNever = none.
  uint64_t WaitBound(ClientId id) const;
  /// The number of grants that named no launch of the snapshot. Only a broken policy makes them.
  uint64_t rejected_grants() const { return rejected_grants_; }

  /// All of the state for people to read: a line for the policy and a line for each client.
  std::string Dump() const;

 private:
  struct Client {
    bool used = false;
    ClientSettings settings;
    ClientView view;
    bool active = false;
    bool stopped = false;
    LaunchView launch;            // meaningful while active
    bool partly_granted = false;  // it may run, on some SMs
    uint32_t sm_bound = kKeepsAllSms;  // it leaves the SMs below this
    bool draining = false;        // it was granted the GPU, is asked to yield, and has not stopped yet
    uint64_t draining_ns = 0;     // how long it has been draining
    uint64_t leaving_ns = 0;      // how long it says that it takes to leave; 0 = it does not know
    bool answers = true;          // false: it did not stop within kLongestDrainNs and has given no sign of life since
    uint64_t word_ns = 0;         // its last prediction of the time that remains
    uint64_t ran_since_word_ns = 0;  // how long it has run since that prediction
    uint64_t starving_ns = 0;     // time since it last had the GPU
    uint64_t bound_ns = 0;  // how long it may go without the GPU, by its latency bound or its least share; 0 = none
    uint64_t before_others_ns = 0;  // GPU time for which it goes before all others once bound_ns has passed
    uint64_t overdue_left_ns = 0;   // what is left of that GPU time
  };

  bool IsRunning(const Client& client) const;
  /// How long the client may be draining until the GPU counts as gone over to the next client, although it has not
  /// said that it has stopped; kNever = for as long as it drains.
  static uint64_t GivesWayAfterNs(const Client& client);
  static bool HasGivenWay(const Client& client) { return client.draining_ns > GivesWayAfterNs(client); }
  /// Advance over a time in which no client gives way.
  void AdvanceTo(uint64_t now_ns);
  /// `elapsed_ns` passed, of which `share_ns` is the client's own share of the GPU.
  void Charge(Client& client, uint64_t elapsed_ns, uint64_t share_ns);
  uint64_t TakeSwitchTime(Client& client, uint64_t elapsed_ns);
  void BeginLaunch(Client& client, const Observation& observation);
  /// Time until the client, less what stopping the others takes, has waited for its bound; 0 = it has.
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
  std::optional<ClientId> resident_;  // the client to whose context the GPU was given last
  uint64_t arriving_ns_ = 0;          // what is left of the switch to that context
  uint32_t sms_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t review_ns_ = kNever;
  std::vector<Client> clients_;  // indexed by ClientId
  std::vector<Event> events_;
  std::vector<ClientView> client_views_;
  std::vector<LaunchView> launch_views_;
  std::vector<uint32_t> client_places_;
  std::vector<uint32_t> launch_places_;
  Snapshot snapshot_;
  Decision decision_;
  const Client* next_ = nullptr;  // of the clients that wait: the first by priority, then by remaining time
  uint64_t rejected_grants_ = 0;
};

}  // namespace cupola::sched
