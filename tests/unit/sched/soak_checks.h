// What must hold all the time in a soak, by what the simulation knows of its clients, what stands on the board and what
// `show` of the control requests says. Each rule has a name, by which planted bugs are looked for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulated_machine.h"
#include "soak_plan.h"

namespace cupola::sched {

/// What operators have said of a client.
struct SoakTold {
  std::optional<uint32_t> weight;
  std::optional<int32_t> priority;
  bool is_paused = false;
};

/// What a soak knows of a client beside its SimProcess, at the same place of an array.
struct SoakClient {
  bool is_used = false;      ///< it has, or had, a slot that has not been seen to be another's
  uint64_t generation = 0;   ///< of this place in the array
  uint32_t pid = 0;
  std::string label;
  bool is_hog = false;
  bool is_known = false;     ///< it has told the present daemon of itself
  SoakTold told;             ///< by `set` and `pause`, to the present daemon
  ClientSettings settings;   ///< that it is to have
  bool is_killed = false;    ///< at its end; else it leaves
  uint64_t dead_since_ns = 0;
};

/// All that the rules look at.
struct SoakState {
  const std::vector<SimProcess>& processes;
  const std::vector<SoakClient>& clients;
  BoardView board;
  uint64_t now_ns = 0;
  bool has_daemon = false;
  uint64_t daemon_since_ns = 0;  ///< it has been there, or not
  std::string policy;            ///< that is in force
  uint64_t policy_since_ns = 0;
};

struct Violation {
  std::string rule;
  std::string text;
};

class SoakChecks {
 public:
  // Bounds, all in ns of simulated time.
  static constexpr uint64_t kReapNs = 1'000'000'000;   ///< a dead client's slot is free again
  static constexpr uint64_t kHeldNs = 400'000'000;     ///< nobody is held whom nobody asks for
  static constexpr uint64_t kIdleNs = 2'000'000;       ///< the GPU is idle with work waiting
  static constexpr uint64_t kFirstNs = 100'000'000;    ///< HPF: the one of highest priority waits
  static constexpr uint64_t kPausedNs = 100'000'000;   ///< a paused client still has the GPU
  // Tolerances.
  static constexpr double kShareTolerance = 0.05;      ///< FFS: of the ratio of two shares to that of their weights
  static constexpr double kLeastShare = 0.70;          ///< HPF: of what least_share_percent says
  static constexpr int64_t kHeapBytes = 16'384;        ///< that the daemon may hold more than at the first look

  explicit SoakChecks(size_t places);

  /// The state was like this until `to_ns`.
  void Elapse(const SoakState& state, uint64_t to_ns);
  /// Once a second: slots, requests and settings on the board.
  void Look(const SoakState& state);
  /// The answer to {"command": "show", "state": true}.
  void LookAtShow(const SoakState& state, const nlohmann::json& show);
  /// A client was refused because the board is full.
  void Refused(const SoakState& state);
  /// What a daemon holds: by what was seen with a full and with an empty board.
  struct HeapModel {
    double empty = 0;       ///< bytes of one without clients
    double for_room = 0;    ///< for each client that it has room for: that once were there, rounded up to a power of 2
    double for_client = 0;  ///< for each that is there
  };
  void SetHeapModel(const HeapModel& model) { heap_model_ = model; }
  /// It holds so many bytes, with so many clients, and had at most so many at a time.
  void LookAtHeap(int64_t bytes, size_t clients, size_t most);
  /// Some time is over: the least of what it held beyond the model is looked at.
  void JudgeHeap(const SoakState& state);
  /// An hour is over: shares.
  void EndHour(const SoakState& state);
  /// The process at this place has ended.
  void Forget(const SoakState& state, size_t place);
  /// What was told of somebody, or of all, is other than before: what waits, waits anew.
  void Forgive();
  /// The daemon is there, or gone: what it counted begins anew.
  void DaemonChanged();

  const std::vector<Violation>& violations() const { return violations_; }
  /// How near the rules came to their bounds, for people.
  const std::map<std::string, double>& worst() const { return worst_; }

 private:
  /// The checkers' own of one client.
  struct Account {
    double gpu_ns = 0;            ///< SimProcess::gpu_ns at the last look
    uint64_t held_ns = 0, wait_ns = 0, first_ns = 0, paused_ns = 0;
    uint64_t wait_bound_ns = 0;
    double share_wanted_ns = 0, share_due_ns = 0, share_had_ns = 0;
    uint64_t ran_ns = 0;          ///< as `show` had it
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
  size_t first_ = SIZE_MAX;      ///< HPF: who has the highest priority of all that want the GPU
  uint64_t first_wait_ns_ = 0;
  uint64_t last_beat_ns_ = 0, last_show_ns_ = 0;
  HeapModel heap_model_;
  double heap_least_ = 0;        ///< of what is held beyond the model, since that was judged
  bool has_heap_ = false;
  std::vector<Violation> violations_;
  std::map<std::string, double> worst_;
};

}  // namespace cupola::sched
