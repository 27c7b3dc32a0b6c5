// What a policy sees and what it answers: plain values without clock, thread or I/O. The Arbiter makes the Snapshot at
// each review and hands it to the policy. Times are nanoseconds on the clock of the Arbiter's caller. The unit of
// scheduling is the process ("client"). A client has at most one "launch" here: all that it wants the GPU for from the
// beginning of its demand to the end, which is a burst of any number of kernel launches. FLEP sections 5.1 and 5.2.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/strong_id.h"

namespace cupola::sched {

struct ClientTag;
/// Names a process that may use the GPU. The Arbiter gives the lowest free number, so that a number is used again after
/// its process has left.
using ClientId = StrongId<ClientTag>;

/// As a time: never; as a bound: none.
inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
/// In Grant::sm_bound: the launch yields no SM.
inline constexpr uint32_t kKeepsAllSms = 0;
/// In LaunchView::sms: the launch needs the whole GPU.
inline constexpr uint32_t kWholeGpu = 0xFFFF;

struct ClientView {
  ClientId id;
  int32_t priority = 0;      ///< higher runs first
  uint32_t weight = 1;       ///< share under FFS, >= 1
  bool paused = false;
  bool can_preempt = false;  ///< it can stop running kernels at block boundaries; false while it may not be asked
  bool can_gate = false;     ///< it can stop between kernels; false while it may not be asked
  bool shares_context = false;      ///< MPS: kernels of several such clients can run side by side
  /// The longest time without the GPU after which it is to go before all others: its latency bound, or the wait that
  /// gives it its least share, whichever is shorter; 0 = it has neither.
  uint64_t latency_bound_ns = 0;
  /// Moving mean of the predictions with which its launches began; the newest one counts for an eighth. 0 = none yet.
  uint64_t typical_ns = 0;
  /// GPU time that it has had, without the switches of contexts. Clients that run side by side have equal parts of the
  /// time.
  uint64_t ran_ns = 0;

  /// Whether the client can yield when it is asked to.
  bool stoppable() const { return can_preempt || can_gate; }
};

/// The launch of a client that wants the GPU, with FLEP's triplet T_e, T_w, T_r (FLEP section 5.1). Predictions are the
/// client's own.
struct LaunchView {
  ClientId client;
  uint64_t sequence = 0;      ///< tells the launches of one client apart; the number of the demand
  int32_t priority = 0;       ///< the client's, or kOverduePriority
  uint64_t expected_ns = 0;   ///< T_e: predicted duration as the client said it at the beginning; never changed
  uint64_t waited_ns = 0;     ///< T_w: time for which the client wanted the GPU and did not have it
  /// T_r: predicted time that it still needs. While the client's latest prediction lasts, this is what is left of that
  /// prediction. A launch that has outlived the prediction is expected to need as long again as it is over.
  uint64_t remaining_ns = 0;
  /// What is left of the client's latest prediction; 0 where the client made none or the launch has outlived it. Among
  /// launches of one priority this is the only prediction by which one is stopped for another: each of many equal
  /// launches outlives its prediction while it waits for processors and context switches, and by remaining_ns they
  /// would stop one another in turn.
  uint64_t foreseen_ns = 0;
  uint64_t arrived_ns = 0;    ///< time of the review that first saw it
  /// Predicted cost of preempting it: the time that the client takes to leave and, where it shares no context, the
  /// switch to another one. The configured cost where the client knows none.
  uint64_t overhead_ns = 0;
  uint32_t sms = kWholeGpu;   ///< SMs that it needs
  bool granted = false;       ///< the last decision granted it all SMs; false also where it was granted some of them
};

/// The priority of a launch that goes before all others, because its client has waited for its
/// ClientView::latency_bound_ns.
inline constexpr int32_t kOverduePriority = std::numeric_limits<int32_t>::max();

/// The state of one GPU. `launches` holds the launches that may be chosen, so not those of paused clients. Launches of
/// clients that cannot be stopped are among them, and run whether they are chosen or not. The spans lie in the Arbiter
/// and are valid until it builds the next snapshot (Arbiter::Decide).
struct Snapshot {
  uint64_t now_ns = 0;
  uint32_t sms = 0;  ///< SMs of the GPU; 0 = unknown
  std::span<const ClientView> clients;
  std::span<const LaunchView> launches;  ///< in the order of `clients`, which is that of their numbers
  /// By ClientId: 1 + the client's index in `clients`; 0 = none.
  std::span<const uint32_t> client_places;
  /// By ClientId: 1 + the index of the client's launch in `launches`; 0 = none.
  std::span<const uint32_t> launch_places;
  // Of all `clients`, so that what a policy says of each client need not look through all others (Policy::HoldsFor).
  int32_t highest_priority = std::numeric_limits<int32_t>::min();
  uint32_t clients_of_highest_priority = 0;
  uint32_t clients_with_bound = 0;  ///< those whose latency_bound_ns is not 0

  const ClientView* FindClient(ClientId id) const;
  const LaunchView* FindLaunch(ClientId id) const;
};

/// What has happened since the last decision. The snapshot already shows the outcome. A policy that takes over from
/// another one first gets kJoined for each client and kArrived for each launch.
enum class EventKind : uint8_t {
  kArrived,          ///< the client wants the GPU: a new launch
  kPreempted,        ///< the client was stopped, and its launch has left the GPU unfinished
  kFinished,         ///< the client's launch has ended; a kArrived follows where the client has another one already
  kJoined,
  kLeft,             ///< the client has left or its process has ended
  kSettingsChanged,  ///< the client's settings were applied, at its join or because they may have changed
  kPaused,           ///< the operator has paused the client (`cupola ctl pause`)
  kResumed,          ///< the operator has ended the pause
  kTick,             ///< nothing of the above, as when only the review time of the last decision has come
};

struct Event {
  EventKind kind = EventKind::kTick;
  ClientId client;
};

/// The form in which a launch may run; kAny leaves the choice to the client.
enum class Variant : uint8_t { kAny, kOriginal, kPreemptible, kSliced };

/// One launch that may run, and how. The Arbiter does not carry out the variant and the number of workers yet.
struct Grant {
  ClientId client;
  uint64_t sequence = 0;
  Variant variant = Variant::kAny;
  uint32_t workers_per_sm = 0;           ///< 0 = as many as fit
  uint32_t sm_bound = kKeepsAllSms;      ///< the launch leaves the SMs with a number below this
};

/// What may run from now on. Every other launch that can be stopped is stopped.
struct Decision {
  std::vector<Grant> grants;
  uint64_t review_ns = kNever;   ///< when the policy wants a kTick at the latest
  /// Clients without work that can be stopped are asked to yield now, so that they wait when they get work.
  bool hold_newcomers = false;

  bool Grants(ClientId id) const;
};

inline const ClientView* Snapshot::FindClient(ClientId id) const {
  const uint32_t place = id.value() < client_places.size() ? client_places[id.value()] : 0;
  return place != 0 ? &clients[place - 1] : nullptr;
}

inline const LaunchView* Snapshot::FindLaunch(ClientId id) const {
  const uint32_t place = id.value() < launch_places.size() ? launch_places[id.value()] : 0;
  return place != 0 ? &launches[place - 1] : nullptr;
}

inline bool Decision::Grants(ClientId id) const {
  for (const Grant& grant : grants) {
    if (grant.client == id) return true;
  }
  return false;
}

}  // namespace cupola::sched
