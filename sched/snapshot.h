// What a policy sees and what it answers: plain values without clock, thread or I/O. Times are nanoseconds on the clock
// of the Arbiter's caller. The unit of scheduling is the process ("client"); the policy sees the launch at each
// client's head. FLEP sections 5.1 and 5.2.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/strong_id.h"

namespace cupola::sched {

struct ClientTag;
/// Names a process that may use the GPU. Numbers are used again after their process has left.
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
  bool can_preempt = false;  ///< it can stop running kernels at block boundaries
  bool can_gate = false;     ///< it can stop between kernels
  bool shares_context = false;      ///< MPS: kernels of several such clients can run side by side
  uint64_t latency_bound_ns = 0;    ///< the longest that it is meant to wait; 0 = none
  uint64_t typical_ns = 0;          ///< mean of the predictions of its launches so far; 0 = none yet
  uint64_t ran_ns = 0;              ///< GPU time that it has had

  /// Whether the client can yield when it is asked to.
  bool stoppable() const { return can_preempt || can_gate; }
};

/// The launch at the head of a client that wants the GPU, with FLEP's triplet (FLEP section 5.1).
struct LaunchView {
  ClientId client;
  uint64_t sequence = 0;      ///< tells the launches of one client apart
  int32_t priority = 0;       ///< the client's, or kOverduePriority
  uint64_t expected_ns = 0;   ///< T_e: predicted duration, never changed
  uint64_t waited_ns = 0;     ///< T_w: time for which it was active and did not run
  uint64_t remaining_ns = 0;  ///< T_r: predicted time that it still needs
  /// What is left of the launch's own prediction; 0 where it has none or has outlived it. Among launches of one
  /// priority this is the only reason to stop one for another: each of many equal launches outlives its prediction
  /// while it waits for processors and context switches, and by remaining_ns they would stop one another in turn.
  uint64_t foreseen_ns = 0;
  uint64_t arrived_ns = 0;
  uint64_t overhead_ns = 0;   ///< predicted cost of preempting it
  uint32_t sms = kWholeGpu;   ///< SMs that it needs
  bool granted = false;       ///< the last decision granted it all SMs
};

/// The priority of a launch that has waited for its client's latency bound. It goes before all others.
inline constexpr int32_t kOverduePriority = std::numeric_limits<int32_t>::max();

/// The state of one GPU. `launches` holds the launches that may be chosen, so not those of paused clients. Launches of
/// clients that cannot be stopped are among them, and run whether they are chosen or not.
struct Snapshot {
  uint64_t now_ns = 0;
  uint32_t sms = 0;  ///< SMs of the GPU; 0 = unknown
  std::span<const ClientView> clients;
  std::span<const LaunchView> launches;  ///< in the order of clients
  /// By ClientId: 1 + the client's index in `clients`; 0 = none.
  std::span<const uint32_t> client_places;
  /// By ClientId: 1 + the index of the client's launch in `launches`; 0 = none.
  std::span<const uint32_t> launch_places;

  const ClientView* FindClient(ClientId id) const;
  const LaunchView* FindLaunch(ClientId id) const;
};

enum class EventKind : uint8_t {
  kArrived,          ///< the client wants the GPU
  kPreempted,        ///< the client's launch has left the GPU unfinished
  kFinished,         ///< the client has nothing left to run
  kJoined,
  kLeft,             ///< the client's process is gone
  kSettingsChanged,  ///< priority, weight or latency bound
  kPaused,
  kResumed,
  kTick,             ///< the review time of the last decision has come
};

struct Event {
  EventKind kind = EventKind::kTick;
  ClientId client;
};

enum class Variant : uint8_t { kAny, kOriginal, kPreemptible, kSliced };

/// One launch that may run, and how. The variant and the number of workers are not carried out yet.
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
  bool hold_newcomers = false;   ///< clients without work are to wait when they get some

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
