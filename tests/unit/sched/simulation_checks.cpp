#include "simulation_checks.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace cupola::sched {
namespace {

// How long the machinery takes, at most: a review after the bell, an agent's wake-up, a launch.
constexpr uint64_t kReactionNs = 50'000 + 50'000 + 5'000 + 25'000;
constexpr uint64_t kReapNs = 600'000;

}  // namespace

SimChecks::SimChecks(const Scenario& scenario) : scenario_(scenario) {
  for (const ProcessPlan& plan : scenario.processes) {
    const uint64_t stop = plan.can_preempt ? plan.block_ns : plan.can_gate ? kGateQuantumNs : 0;
    slowest_stop_ns_ = std::max(slowest_stop_ns_, stop + 2'000);
    bounded_ += plan.settings.latency_bound_ns != 0 ? 1 : 0;
  }
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == FaultKind::kKill) fault_slack_ns_ += kReapNs;
    if (fault.kind == FaultKind::kStop) fault_slack_ns_ += scenario.processes[fault.process].lease_ns;
  }
}

void SimChecks::Violate(uint64_t now_ns, const std::string& what) {
  violations_.push_back(fmt::format("at {} us: {}", now_ns / 1000, what));
}

void SimChecks::CheckConserved(const std::vector<SimProcess>& processes, const Arbiter& core,
                               uint64_t elapsed, uint64_t now_ns) {
  bool wanted = false;
  bool used = false;
  for (const SimProcess& process : processes) {
    used = used || process.OnGpu();
    wanted = wanted || (process.Wants() && !core.settings(process.id).paused);
  }
  idle_ns_ = wanted && !used ? idle_ns_ + elapsed : 0;
  const uint64_t grace = scenario_.policy == "ffs" ? scenario_.options.idle_grace_ns : 0;
  const uint64_t missed = has_daemon_ ? 0 : kMissedNs + 2 * kPollNs;
  if (idle_ns_ > kReactionNs + grace + fault_slack_ns_ + missed) {
    Violate(now_ns, fmt::format("the GPU is idle for {} us with work waiting", idle_ns_ / 1000));
    idle_ns_ = 0;
  }
}

void SimChecks::CheckExclusive(const std::vector<SimProcess>& processes, uint64_t elapsed,
                               uint64_t now_ns) {
  if (scenario_.policy == "corun") return;
  const auto running = std::count_if(
      processes.begin(), processes.end(), [](const SimProcess& process) {
        return process.device == DeviceState::kRunning && process.sm_bound == 0 &&
               process.Stoppable() && !process.dead;
      });
  overlap_ns_ = running > 1 ? overlap_ns_ + elapsed : 0;
  if (overlap_ns_ > kReactionNs + fault_slack_ns_) {
    Violate(now_ns, fmt::format("two processes have the GPU for {} us", overlap_ns_ / 1000));
    overlap_ns_ = 0;
  }
}

// Corun: of several that share their context and want the GPU two have it.
void SimChecks::CheckBeside(const std::vector<SimProcess>& processes, const Arbiter& core,
                            uint64_t elapsed, uint64_t now_ns) {
  if (scenario_.policy != "corun") return;
  const auto wanting = std::count_if(
      processes.begin(), processes.end(), [&](const SimProcess& process) {
        return process.plan.shares_context && process.Wants() && !core.settings(process.id).paused;
      });
  const auto running = std::count_if(processes.begin(), processes.end(),
                                     [](const SimProcess& process) { return process.OnGpu(); });
  alone_ns_ = wanting > 1 && running < 2 ? alone_ns_ + elapsed : 0;
  if (alone_ns_ > slowest_stop_ns_ + kReactionNs + fault_slack_ns_) {
    Violate(now_ns, fmt::format("one process has the GPU for {} us while others could run beside it",
                                alone_ns_ / 1000));
    alone_ns_ = 0;
  }
}

// HPF: the one process of highest priority runs, save for the time that stopping the others takes.
void SimChecks::CheckHighestRuns(const std::vector<SimProcess>& processes, const Arbiter& core,
                                 uint64_t elapsed, uint64_t now_ns) {
  if (scenario_.policy != "hpf" || bounded_ != 0) return;
  size_t top = SIZE_MAX;
  bool tie = false;
  for (size_t i = 0; i < processes.size(); ++i) {
    const SimProcess& process = processes[i];
    if (!process.Wants() || core.settings(process.id).paused) continue;
    const int32_t priority = core.settings(process.id).priority;
    const int32_t best =
        top == SIZE_MAX ? 0 : core.settings(processes[top].id).priority;
    if (top == SIZE_MAX || priority > best) {
      top = i;
      tie = false;
    } else if (priority == best) {
      tie = true;
    }
  }
  const bool waits = top != SIZE_MAX && !tie && !processes[top].OnGpu();
  top_wait_ns_ = waits && top == top_ ? top_wait_ns_ + elapsed : 0;
  top_ = top;
  if (top_wait_ns_ > slowest_stop_ns_ + kReactionNs + fault_slack_ns_) {
    Violate(now_ns, fmt::format("process {} of highest priority waits for {} us", top,
                                top_wait_ns_ / 1000));
    top_wait_ns_ = 0;
  }
}

void SimChecks::CheckPaused(SimProcess& process, const Arbiter& core, uint64_t elapsed,
                            uint64_t now_ns) {
  const bool runs = core.settings(process.id).paused && process.Stoppable() && process.OnGpu();
  process.paused_running_ns = runs ? process.paused_running_ns + elapsed : 0;
  if (process.paused_running_ns > slowest_stop_ns_ + kReactionNs) {
    Violate(now_ns, fmt::format("process {} runs although it is paused", process.slot));
    process.paused_running_ns = 0;
  }
}

// FFS: nobody waits for longer than the others' turns; HPF: nor than the latency bound. Stopping the
// others, switching and reviews come on top, once for each other process.
void SimChecks::CheckWait(SimProcess& process, const Arbiter& core, uint64_t elapsed,
                          uint64_t now_ns) {
  const bool waits = process.Wants() && !process.OnGpu() && !core.settings(process.id).paused;
  if (!waits) {
    process.wait_ns = 0;
    process.wait_bound_ns = 0;
    return;
  }
  process.wait_ns += elapsed;
  process.longest_wait_ns = std::max(process.longest_wait_ns, process.wait_ns);
  if (process.wait_ns < 1'000'000 || !process.Stoppable()) return;
  const bool promised = scenario_.policy == "ffs" ||
                        (scenario_.policy == "hpf" && bounded_ == 1 &&
                         process.plan.settings.latency_bound_ns != 0);
  if (!promised) return;
  const uint64_t bound = core.WaitBound(process.id);
  if (bound == kNever) return;
  process.wait_bound_ns = std::max(process.wait_bound_ns, bound);
  const uint64_t slack = (slowest_stop_ns_ + kReactionNs + scenario_.switch_ns) *
                             scenario_.processes.size() +
                         fault_slack_ns_;
  if (process.wait_ns > process.wait_bound_ns + slack) {
    Violate(now_ns, fmt::format("process {} waits for {} us, promised were {} us", process.slot,
                                process.wait_ns / 1000, process.wait_bound_ns / 1000));
    process.wait_ns = 0;
  }
}

void SimChecks::Elapse(std::vector<SimProcess>& processes, const Arbiter& core, uint64_t from_ns,
                       uint64_t to_ns) {
  if (start_ns_ == 0) start_ns_ = from_ns;
  const uint64_t elapsed = to_ns - from_ns;
  if (elapsed == 0) return;
  CheckConserved(processes, core, elapsed, to_ns);
  if (!has_daemon_) return;
  CheckExclusive(processes, elapsed, to_ns);
  CheckBeside(processes, core, elapsed, to_ns);
  CheckHighestRuns(processes, core, elapsed, to_ns);
  for (SimProcess& process : processes) {
    if (process.reaped) continue;
    CheckPaused(process, core, elapsed, to_ns);
    CheckWait(process, core, elapsed, to_ns);
  }
}

void SimChecks::KernelDone(const SimProcess& process, uint64_t now_ns) {
  const double missing = static_cast<double>(process.kernel_ns) - process.work_done;
  if (std::abs(missing) > 2) {
    Violate(now_ns, fmt::format("process {} ran {} ns of a kernel of {} ns", process.slot,
                                process.work_done, process.kernel_ns));
  }
}

void SimChecks::SetDaemon(bool present) {
  has_daemon_ = present;
  idle_ns_ = overlap_ns_ = alone_ns_ = top_wait_ns_ = 0;
}

void SimChecks::Forgive(SimProcess& process) {
  process.wait_ns = 0;
  process.paused_running_ns = 0;
  idle_ns_ = 0;
  alone_ns_ = 0;
  top_wait_ns_ = 0;
}

// FFS: with everybody always wanting the GPU, shares are as the weights are, and switching costs no
// more than was allowed.
void SimChecks::CheckShares(const std::vector<SimProcess>& processes, double switching_ns,
                            uint64_t now_ns) {
  double total = 0;
  double weights = 0;
  double longest_turn = 0;
  double overheads = 0;
  for (const SimProcess& process : processes) {
    total += process.gpu_ns;
    weights += process.plan.settings.weight;
    overheads += process.plan.reports_overhead
                     ? static_cast<double>(process.plan.block_ns + scenario_.switch_ns)
                     : 200'000;
  }
  const double unit = std::max(overheads / (weights * scenario_.options.max_overhead),
                               static_cast<double>(scenario_.options.quantum_ns));
  for (const SimProcess& process : processes) {
    longest_turn = std::max(longest_turn, unit * process.plan.settings.weight);
  }
  for (const SimProcess& process : processes) {
    const double share = process.gpu_ns / total;
    const double due = process.plan.settings.weight / weights;
    const double tolerance =
        0.02 + (longest_turn + static_cast<double>(slowest_stop_ns_)) / total;
    if (std::abs(share - due) > tolerance) {
      Violate(now_ns, fmt::format("process {} had {:.3f} of the GPU, due were {:.3f} +- {:.3f}",
                                  process.slot, share, due, tolerance));
    }
  }
  const double allowed = scenario_.options.max_overhead * total +
                         3.0 * static_cast<double>(scenario_.switch_ns * processes.size());
  if (switching_ns > allowed) {
    Violate(now_ns, fmt::format("switching took {:.0f} us, allowed were {:.0f}",
                                switching_ns / 1000, allowed / 1000));
  }
}

void SimChecks::Finish(const std::vector<SimProcess>& processes, double switching_ns,
                       uint64_t now_ns) {
  const bool saturated =
      scenario_.end_ns != 0 && scenario_.faults.empty() &&
      std::all_of(processes.begin(), processes.end(), [](const SimProcess& process) {
        return process.plan.back_to_back && process.Stoppable() && process.has_kernel;
      });
  const bool knows = scenario_.known_switch_ns == scenario_.switch_ns;
  if (scenario_.policy == "ffs" && saturated && knows) CheckShares(processes, switching_ns, now_ns);
}

}  // namespace cupola::sched
