// Checks what must hold all the time in a soak, from what the simulation knows of its clients, what stands on the board
// and what the control request `show` answers. Each rule has a name; a planted bug names the rule that must find it
// (plant.py). Owned by Soak. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulated_machine.h"
#include "soak_plan.h"

namespace cupola::sched {

/// What operators have set for a client.
struct SoakTold {
  std::optional<uint32_t> weight;
  std::optional<int32_t> priority;
  bool is_paused = false;
};

/// What a soak knows of a client beside its SimProcess, which has the same index in its array.
struct SoakClient {
  bool is_used = false;      ///< it has, or had, a board slot that has not been seen to be another's
  uint64_t generation = 0;   ///< of this place in the array
  uint32_t pid = 0;
  std::string label;         ///< by which rules know it
  bool is_hog = false;       ///< always has work
  bool is_known = false;     ///< it has joined the present daemon
  SoakTold told;             ///< what `set` and `pause` have told the present daemon
  ClientSettings settings;   ///< the settings that it must have
  bool is_killed = false;    ///< it is killed at its end; else it leaves
  uint64_t dead_since_ns = 0;
};

/// All that the rules check.
struct SoakState {
  const std::vector<SimProcess>& processes;
  const std::vector<SoakClient>& clients;
  BoardView board;
  uint64_t now_ns = 0;
  bool has_daemon = false;
  uint64_t daemon_since_ns = 0;  ///< since when there has been a daemon, or none
  std::string policy;            ///< the policy that is in force
  uint64_t policy_since_ns = 0;
};

struct Violation {
  std::string rule;
  std::string text;
};

class SoakChecks {
 public:
  // The longest times for which something may be so, in ns of simulated time.
  static constexpr uint64_t kReapNs = 1'000'000'000;   ///< the slot of a dead client is not free
  static constexpr uint64_t kHeldNs = 400'000'000;     ///< a client is held although none needs it to be
  static constexpr uint64_t kIdleNs = 2'000'000;       ///< the GPU is idle while work waits
  static constexpr uint64_t kFirstNs = 100'000'000;    ///< HPF: the client of highest priority waits
  static constexpr uint64_t kPausedNs = 100'000'000;   ///< a paused client still has the GPU
  // Tolerances.
  static constexpr double kShareTolerance = 0.05;      ///< FFS: of the ratio of two shares to that of their weights
  static constexpr double kLeastShare = 0.70;          ///< HPF: part of least_share_percent that a client must get
  static constexpr int64_t kHeapBytes = 16'384;        ///< bytes that the daemon may hold beyond the model

  explicit SoakChecks(size_t places);

  /// Reports that the state was like this until `to_ns`.
  void Elapse(const SoakState& state, uint64_t to_ns);
  /// Called once a second: checks slots, requests and settings on the board.
  void Look(const SoakState& state);
  /// Checks the answer to {"command": "show", "state": true}.
  void LookAtShow(const SoakState& state, const nlohmann::json& show);
  /// Reports that a client was refused because the board is full.
  void Refused(const SoakState& state);
  /// A model of how many bytes a daemon holds on the heap, measured with a full and with an empty board.
  struct HeapModel {
    double empty = 0;       ///< bytes of a daemon without clients
    double for_room = 0;    ///< bytes for each place that it has for clients: the most so far, rounded up to a power of 2
    double for_client = 0;  ///< bytes for each client that is there
  };
  void SetHeapModel(const HeapModel& model) { heap_model_ = model; }
  /// Reports that the daemon holds `bytes` with `clients` clients, and had `most` at a time so far.
  void LookAtHeap(int64_t bytes, size_t clients, size_t most);
  /// Checks the least of what the daemon held beyond the model since this was last called.
  void JudgeHeap(const SoakState& state);
  /// Called at the end of each hour: checks shares.
  void EndHour(const SoakState& state);
  /// Reports that the process at this place has ended.
  void Forget(const SoakState& state, size_t place);
  /// Reports that settings of a client, or of all, have changed: all waits count anew.
  void Forgive();
  /// Reports that a daemon has come, or gone: what a daemon counts begins anew.
  void DaemonChanged();

  const std::vector<Violation>& violations() const { return violations_; }
  /// How near the rules came to their bounds, for people.
  const std::map<std::string, double>& worst() const { return worst_; }

 private:
  /// What the checks count of one client.
  struct Account {
    double gpu_ns = 0;            ///< SimProcess::gpu_ns at the last look
    uint64_t held_ns = 0;         ///< how long it has been held without need
    uint64_t wait_ns = 0;         ///< how long it has waited since it last ran
    uint64_t first_ns = 0;
    uint64_t paused_ns = 0;       ///< how long it has been on the GPU although it is paused
    uint64_t wait_bound_ns = 0;   ///< the longest wait that was promised
    double share_wanted_ns = 0;   ///< time in this hour in which it wanted the GPU
    double share_due_ns = 0;      ///< least GPU time that it had to get of that
    double share_had_ns = 0;      ///< GPU time that it got of that
    uint64_t ran_ns = 0;          ///< the time that `show` last said
    SlotSet stale;                ///< requests that had no reason at the last look
    std::vector<double> beside;   ///< FFS: normalised GPU time while the client at that place wanted it too
  };

  void Violate(const SoakState& state, const char* rule, const std::string& what);
  void Worst(const std::string& name, double value);
  void CheckIdle(const SoakState& state, uint64_t elapsed);
  void CheckEach(const SoakState& state, uint64_t elapsed);
  void CheckFirst(const SoakState& state, uint64_t elapsed);
  void CountShares(const SoakState& state, uint64_t elapsed);
  void JudgePair(const SoakState& state, size_t i, size_t k);
  void JudgeLeastShare(const SoakState& state, size_t i);
  void LookAtSlots(const SoakState& state);
  void LookAtRequests(const SoakState& state);

  std::vector<Account> accounts_;
  uint64_t idle_ns_ = 0;
  size_t first_ = SIZE_MAX;      ///< HPF: the client of highest priority of all that want the GPU
  uint64_t first_wait_ns_ = 0;   ///< how long that one has waited
  uint64_t last_beat_ns_ = 0;    ///< the daemon's beat at the last look
  uint64_t last_show_ns_ = 0;    ///< the time in the last answer to `show`
  HeapModel heap_model_;
  double heap_least_ = 0;        ///< the least that was held beyond the model since JudgeHeap
  bool has_heap_ = false;
  std::vector<Violation> violations_;
  std::map<std::string, double> worst_;
};

}  // namespace cupola::sched
