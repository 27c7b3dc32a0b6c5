// A simulated GPU with its processes, a board and the arbiter, in virtual time, from one seed: the
// policies, the core and the board's protocol are the product's own; processes, kernels, blocks and
// context switches are models. Checkers run all the time; the first findings are in the outcome.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sched/arbiter.h"
#include "sched/daemon/board_review.h"
#include "simulated_machine.h"

namespace cupola::sched {

/// What happens to a process from outside.
enum class FaultKind : uint8_t {
  kKill, kStop, kContinue, kPause, kUnpause, kSetPriority,
  kDaemonDies, kDaemonComes,  ///< of no process
};
struct Fault {
  uint64_t at_ns = 0;
  FaultKind kind = FaultKind::kKill;
  size_t process = 0;
  int32_t value = 0;
};

struct Scenario {
  uint64_t seed = 0;
  std::string policy = "hpf";
  PolicyOptions options;
  uint32_t sms = 132;
  uint64_t switch_ns = 100'000;      ///< a context's start on the GPU after another's
  uint64_t known_switch_ns = 0;      ///< what the arbiter takes it to be
  uint64_t end_ns = 0;               ///< stop the clock there; 0 = when all is done
  std::vector<ProcessPlan> processes;
  std::vector<Fault> faults;
  bool clients_miss_the_daemon = true;  ///< false: a planted mistake

  std::string ToString() const;
};

/// A scenario of a few processes from one seed, for the policy of that name.
Scenario MakeScenario(uint64_t seed, const std::string& policy);

struct ProcessOutcome {
  uint32_t finished = 0;        ///< kernels
  uint64_t turnaround_ns = 0;   ///< sum over its kernels, from arrival to end
  uint64_t alone_ns = 0;        ///< sum of their durations
  double gpu_ns = 0;            ///< GPU time it had, to switch there not counted
  uint64_t longest_wait_ns = 0;
};

struct Outcome {
  std::vector<std::string> violations;
  uint64_t trace = 0;           ///< digest of everything that happened
  uint64_t steps = 0;
  uint64_t end_ns = 0;
  uint64_t preemptions = 0;
  std::vector<uint64_t> ends_ns;  ///< when kernels ended, in order
  double switching_ns = 0;      ///< GPU time that went into switches and drains of nobody
  std::vector<ProcessOutcome> processes;
};

using PolicyMaker = std::function<std::unique_ptr<Policy>()>;

/// Runs the scenario; what `make_policy` gives replaces the policy that the scenario names.
Outcome Simulate(const Scenario& scenario, const PolicyMaker& make_policy = nullptr);

}  // namespace cupola::sched
