// A soak test in virtual time: clients come and go on a simulated GPU for a simulated day, are killed, stopped, paused
// and reconfigured, and the daemon ends and comes back, all from one seed. Processes, kernels and the clock are
// simulated; the daemon without its sockets and threads, the core, the policies and the board are the product's own.
// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heap_count.h"
#include "soak_checks.h"
#include "soak_daemon.h"
#include "soak_plan.h"

namespace cupola::sched {

struct SoakOutcome {
  std::vector<Violation> violations;
  std::map<std::string, uint64_t> counts;  ///< how often each kind of thing happened
  std::map<std::string, double> worst;     ///< SoakChecks::worst
};

class Soak : private SimMachine {
 public:
  explicit Soak(const SoakOptions& options);
  SoakOutcome Run();

 private:
  /// What happens from outside. The version of an event of EventType::kFault holds an Act, with the generation of the
  /// place in the bits above it.
  enum class Act : uint64_t {
    kCome, kGo, kStop, kContinue, kReload, kPolicy, kSet, kPause, kResume, kDaemonDies, kDaemonComes, kRejoin, kHouse,
    kExitSeen, kLook, kHour,
  };

  void OnElapse(uint64_t to_ns) override;
  void OnKernelDone(size_t) override { ++outcome_.counts["kernels"]; }
  void OnPreempted(size_t) override { ++outcome_.counts["preemptions"]; }
  void OnBell() override;
  void HandleOther(const SimEvent& event) override;

  SoakState State() const;
  void Plan(uint64_t after_ns, Act act, size_t place = 0);
  void Do(Act act, size_t place);
  void DoTo(Act act, size_t place);
  void CalibrateHeap();
  void Come(size_t number);
  void Take(const SoakNewcomer& newcomer, const Admission& admission);
  void AdoptBoard(int fd);
  void Go(size_t place);
  void CollectPlaces();
  /// Records that no client is at the place any more.
  void Free(size_t place);
  void Settle(size_t place);
  void SettleAll();
  void Reload();
  void SwitchPolicy();
  void Set();
  void Pause();
  void DaemonDies();
  void DaemonComes();
  void BoardIsBrought();
  void Rejoin(size_t place);
  void MissDaemon(size_t place, uint64_t death);
  void Review();
  void Look();
  void LookAtShow();
  /// The place of some client that lives, or no place.
  size_t AnyLiving();
  size_t Living() const;

  const SoakOptions options_;
  std::vector<SoakNewcomer> newcomers_;
  std::vector<SoakClient> clients_;
  SoakDaemon daemon_;
  SoakConfig config_;
  std::string told_policy_;      ///< policy set by a control request in place of the configuration's; "" = none
  BoardMemory memory_;
  uint64_t daemon_since_ns_ = 0; ///< when the daemon came, or went
  uint64_t policy_since_ns_ = 0; ///< since when the present policy is in force
  uint64_t deaths_ = 0;          ///< of daemons
  bool is_board_brought_ = true; ///< a client of an earlier daemon has brought its board to the present one
  uint64_t review_at_ = kNever;
  uint32_t next_pid_ = SimSurroundings::kFirstPid;
  uint64_t end_ns_ = 0;
  size_t policy_step_ = 0;
  uint64_t comers_ = 0;
  size_t most_of_daemon_ = 0;    ///< the most clients that the present daemon had at a time
  SoakChecks checks_;
  SoakOutcome outcome_;
};

}  // namespace cupola::sched
