// What must hold in every simulated scenario, whatever the policy, and what each policy promises.
#pragma once

#include <string>
#include <vector>

#include "simulation.h"

namespace cupola::sched {

enum class DeviceState : uint8_t {
  kNone,      ///< no kernel
  kWaiting,   ///< a kernel that is not on the GPU
  kStarting,  ///< on its way
  kRunning,
  kDraining,  ///< was asked to leave, finishes its blocks
};

/// A simulated process: host, agent and what the device does for it.
struct SimProcess {
  ProcessPlan plan;
  uint32_t slot = 0;
  ClientId id;
  DeviceState device = DeviceState::kNone;
  bool has_kernel = false;
  bool dead = false;
  bool reaped = false;
  bool stopped_by_signal = false;
  bool host_pending = false;     // its kernel is complete, its host has not seen it
  bool arrival_pending = false;  // its next launch waits for SIGCONT
  bool was_stopped = false;      // its kernel has been off the GPU: the agent must start it again
  bool was_asked = false;        // to yield, at the last look of its agent
  uint32_t launched = 0;
  uint64_t version = 0;          // of its device state: events of an older one are void
  uint64_t renewals = 0;         // which chain of lease renewals is the current one
  uint64_t kernel_ns = 0;
  uint64_t arrived_ns = 0;
  double work_left = 0;
  double work_done = 0;
  double overhead_left = 0;
  uint32_t sm_bound = 0;         // leaves the SMs below it
  double gpu_ns = 0;
  // Of the checkers.
  uint64_t wait_ns = 0;          // since it last ran
  uint64_t wait_bound_ns = 0;    // largest promise during this wait
  uint64_t longest_wait_ns = 0;
  uint64_t paused_running_ns = 0;

  bool Wants() const { return has_kernel && !dead && !stopped_by_signal; }
  bool Stoppable() const { return plan.can_preempt || plan.can_gate; }
  bool OnGpu() const {
    return device == DeviceState::kRunning || device == DeviceState::kDraining;
  }
};

class SimChecks {
 public:
  explicit SimChecks(const Scenario& scenario);

  /// The state was like this in [from_ns, to_ns).
  void Elapse(std::vector<SimProcess>& processes, const Arbiter& core, uint64_t from_ns,
              uint64_t to_ns);
  /// The kernel of the process has ended.
  void KernelDone(const SimProcess& process, uint64_t now_ns);
  /// Something was done to the process from outside: its waits count anew.
  void Forgive(SimProcess& process);
  /// Without a daemon nobody promises anything but that work goes on.
  void SetDaemon(bool present);
  void Finish(const std::vector<SimProcess>& processes, double switching_ns, uint64_t now_ns);

  void Violate(uint64_t now_ns, const std::string& what);
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void CheckConserved(const std::vector<SimProcess>& processes, const Arbiter& core,
                      uint64_t elapsed, uint64_t now_ns);
  void CheckExclusive(const std::vector<SimProcess>& processes, uint64_t elapsed,
                      uint64_t now_ns);
  void CheckBeside(const std::vector<SimProcess>& processes, const Arbiter& core, uint64_t elapsed,
                   uint64_t now_ns);
  void CheckHighestRuns(const std::vector<SimProcess>& processes, const Arbiter& core,
                        uint64_t elapsed, uint64_t now_ns);
  void CheckPaused(SimProcess& process, const Arbiter& core, uint64_t elapsed, uint64_t now_ns);
  void CheckWait(SimProcess& process, const Arbiter& core, uint64_t elapsed, uint64_t now_ns);
  void CheckShares(const std::vector<SimProcess>& processes, double switching_ns,
                   uint64_t now_ns);

  const Scenario& scenario_;
  uint64_t slowest_stop_ns_ = 0;  ///< longest that any process takes to leave the GPU
  uint64_t fault_slack_ns_ = 0;   ///< what the dead and the stopped may cost others
  size_t bounded_ = 0;            ///< processes with a latency bound
  bool has_daemon_ = true;
  uint64_t idle_ns_ = 0;
  uint64_t overlap_ns_ = 0;
  uint64_t alone_ns_ = 0;
  uint64_t top_wait_ns_ = 0;
  size_t top_ = SIZE_MAX;
  uint64_t start_ns_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace cupola::sched
