#include "simulation.h"

#include <algorithm>

#include "simulation_run.h"

namespace cupola::sched {
namespace {

constexpr uint64_t kMostSteps = 400'000;

}  // namespace

void Simulation::OnKernelDone(size_t index) {
  const SimProcess& process = processes_[index];
  Note(1, index);
  checks_.KernelDone(process, now_);
  ProcessOutcome& outcome = outcome_.processes[index];
  outcome.finished++;
  outcome_.ends_ns.push_back(now_);
  outcome.turnaround_ns += now_ - process.arrived_ns;
  outcome.alone_ns += process.kernel_ns;
}

bool Simulation::IsDone() const {
  return std::all_of(processes_.begin(), processes_.end(), [](const SimProcess& process) {
    return process.dead ||
           (process.launched >= process.plan.kernels && !process.has_kernel && !process.host_pending);
  });
}

Outcome Simulation::Run() {
  outcome_.processes.resize(scenario_.processes.size());
  SetUp();
  const uint64_t end = scenario_.end_ns != 0 ? now_ + scenario_.end_ns : kNever;
  for (uint64_t at = NextTime(); at != kNever; at = NextTime()) {
    if (at >= end) {
      AdvanceTo(end);
      break;
    }
    Step();
    if (++outcome_.steps > kMostSteps) {
      checks_.Violate(now_, "does not come to an end");
      break;
    }
    if (IsDone() || checks_.violations().size() > 3) break;
  }
  if (scenario_.end_ns == 0 && !IsDone()) checks_.Violate(now_, "a process is stuck");
  if (rejected_grants_ + core_.rejected_grants() != 0) {
    checks_.Violate(now_, "the policy granted what is not there");
  }
  checks_.Finish(processes_, outcome_.switching_ns, now_);
  for (size_t i = 0; i < processes_.size(); ++i) {
    outcome_.processes[i].gpu_ns = processes_[i].gpu_ns;
    outcome_.processes[i].longest_wait_ns = processes_[i].longest_wait_ns;
  }
  outcome_.violations = checks_.violations();
  outcome_.end_ns = now_;
  return outcome_;
}

Outcome Simulate(const Scenario& scenario, const PolicyMaker& make_policy) {
  return Simulation(scenario, make_policy).Run();
}

}  // namespace cupola::sched
