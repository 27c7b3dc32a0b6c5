// A simulated GPU with its processes, a board and the arbiter, in virtual time, from one seed. The
// policies, the arbiter's core and the board's protocol are the product's own; processes, kernels,
// blocks and context switches are models. Checkers run all the time; the outcome has their first
// findings. The same scenario gives the same outcome. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sched/arbiter.h"
#include "sched/daemon/board_review.h"
#include "simulated_machine.h"

namespace cupola::sched {

/// What happens to a process, or to the daemon, from outside.
enum class FaultKind : uint8_t {
  kKill, kStop, kContinue, kPause, kUnpause, kSetPriority,
  kDaemonDies, kDaemonComes,  ///< these two happen to no process
};
struct Fault {
  uint64_t at_ns = 0;
  FaultKind kind = FaultKind::kKill;
  size_t process = 0;  ///< index of the process to which it happens
  int32_t value = 0;   ///< the new priority, for kSetPriority
};

struct Scenario {
  uint64_t seed = 0;
  std::string policy = "hpf";
  PolicyOptions options;
  uint32_t sms = 132;
  uint64_t switch_ns = 100'000;      ///< time that a switch from one context to another takes
  uint64_t known_switch_ns = 0;      ///< what the arbiter is told of that time
  uint64_t end_ns = 0;               ///< when the run ends; 0 = when all is done
  std::vector<ProcessPlan> processes;
  std::vector<Fault> faults;
  bool clients_miss_the_daemon = true;  ///< false: a planted bug

  std::string ToString() const;
};

/// A scenario of a few processes from one seed, for the policy of that name.
Scenario MakeScenario(uint64_t seed, const std::string& policy);

struct ProcessOutcome {
  uint32_t finished = 0;        ///< kernels that ended
  uint64_t turnaround_ns = 0;   ///< sum over its kernels, from arrival to end
  uint64_t alone_ns = 0;        ///< sum of their durations
  double gpu_ns = 0;            ///< GPU time that it had, without switches
  uint64_t longest_wait_ns = 0;
};

struct Outcome {
  std::vector<std::string> violations;
  uint64_t trace = 0;           ///< digest of everything that happened
  uint64_t steps = 0;
  uint64_t end_ns = 0;
  uint64_t preemptions = 0;
  std::vector<uint64_t> ends_ns;  ///< when kernels ended, in order
  double switching_ns = 0;      ///< GPU time that went to no process but into switches and drains
  std::vector<ProcessOutcome> processes;
};

using PolicyMaker = std::function<std::unique_ptr<Policy>()>;

/// Runs the scenario. The policy that `make_policy` returns replaces the one that the scenario names.
Outcome Simulate(const Scenario& scenario, const PolicyMaker& make_policy = nullptr);

}  // namespace cupola::sched
