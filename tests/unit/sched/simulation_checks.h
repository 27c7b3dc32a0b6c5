// Checks what must hold in every simulated scenario, whatever the policy, and what each policy promises. Owned by
// Simulation. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "simulation.h"

namespace cupola::sched {

class SimChecks {
 public:
  explicit SimChecks(const Scenario& scenario);

  /// Reports that the state was like this in [from_ns, to_ns).
  void Elapse(std::vector<SimProcess>& processes, const Arbiter& core, uint64_t from_ns,
              uint64_t to_ns);
  /// Reports that the kernel of the process has ended.
  void KernelDone(const SimProcess& process, uint64_t now_ns);
  /// Reports that something was done to the process from outside: its waits count anew.
  void Forgive(SimProcess& process);
  /// Reports whether there is a daemon. Without one the only promise is that work goes on.
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
  uint64_t fault_slack_ns_ = 0;   ///< time that dead and stopped processes may cost others
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
