// Scenarios from a seed.
#include <cmath>

#include <fmt/format.h>

#include "simulation.h"

namespace cupola::sched {
namespace {

bool Chance(Prng& random, double probability) { return random.Uniform(0, 1) < probability; }

uint64_t LogUniform(Prng& random, double low, double high) {
  return static_cast<uint64_t>(std::exp(random.Uniform(std::log(low), std::log(high))));
}

ProcessPlan MakeProcess(Prng& random, bool shares_context) {
  static constexpr uint64_t kBlocks[] = {2'000, 20'000, 200'000};
  static constexpr double kPredictions[] = {1, 1, 1, 0.8, 1.25, 0.1, 10, 0};
  ProcessPlan plan;
  plan.settings.priority = static_cast<int32_t>(random.Below(4));
  plan.settings.weight = 1 + static_cast<uint32_t>(random.Below(4));
  const uint64_t kind = random.Below(10);
  plan.can_preempt = kind < 8;
  plan.can_gate = kind == 8 || Chance(random, 0.3);
  if (kind == 9) plan.can_gate = false;  // nothing can stop it
  plan.shares_context = shares_context;
  plan.start_ns = random.Below(2'000'000);
  plan.kernel_ns = LogUniform(random, 30'000, 6'000'000);
  plan.spread = random.Uniform(0, 0.4);
  plan.kernels = 1 + static_cast<uint32_t>(random.Below(10));
  plan.gap_ns = Chance(random, 0.5) ? 10'000 : LogUniform(random, 5'000, 2'000'000);
  plan.back_to_back = Chance(random, 0.4);
  plan.block_ns = kBlocks[random.Below(3)];
  plan.sms = Chance(random, 0.3) ? 1 + static_cast<uint32_t>(random.Below(60)) : kWholeGpu;
  plan.prediction = kPredictions[random.Below(8)];
  plan.reports_overhead = Chance(random, 0.7);
  return plan;
}

void AddFaults(Prng& random, Scenario& scenario) {
  const size_t process = random.Below(scenario.processes.size());
  const uint64_t at = random.Below(10'000'000);
  const uint64_t later = at + LogUniform(random, 100'000, 40'000'000);
  switch (random.Below(4)) {
    case 0:
      scenario.faults.push_back({at, FaultKind::kKill, process, 0});
      return;
    case 1:
      scenario.faults.push_back({at, FaultKind::kStop, process, 0});
      scenario.faults.push_back({later, FaultKind::kContinue, process, 0});
      return;
    case 2:
      scenario.faults.push_back({at, FaultKind::kPause, process, 0});
      scenario.faults.push_back({later, FaultKind::kUnpause, process, 0});
      return;
    default:
      scenario.faults.push_back({at, FaultKind::kSetPriority, process,
                                 static_cast<int32_t>(random.Below(5))});
  }
}

/// It comes back before anyone misses it, after that, or never.
void AddDaemonDeath(Prng& random, Scenario& scenario) {
  const uint64_t at = random.Below(20'000'000);
  scenario.faults.push_back({at, FaultKind::kDaemonDies, 0, 0});
  if (Chance(random, 0.4)) return;
  const uint64_t later = at + LogUniform(random, 1'000'000, 1'000'000'000);
  scenario.faults.push_back({later, FaultKind::kDaemonComes, 0, 0});
}

/// Of one priority, none of them done when it says, and the daemon ends in the midst of it: what the
/// standing decisions are then, they stay.
void MakeEquals(Prng& random, Scenario& scenario) {
  for (ProcessPlan& plan : scenario.processes) {
    plan.settings = {};
    plan.can_preempt = true;
    plan.start_ns = random.Below(10'000'000);
    plan.kernel_ns = LogUniform(random, 3'000'000, 30'000'000);
    plan.prediction = 0.1;
  }
  scenario.faults = {{random.Below(40'000'000), FaultKind::kDaemonDies, 0, 0}};
}

}  // namespace

Scenario MakeScenario(uint64_t seed, const std::string& policy) {
  Prng random(seed * 0x9E3779B97F4A7C15ULL + policy.size());
  Scenario scenario;
  scenario.seed = seed;
  scenario.policy = policy;
  scenario.switch_ns = Chance(random, 0.5) ? 130'000 : 20'000;
  scenario.options.max_overhead = random.Uniform(0.05, 0.3);
  scenario.options.idle_grace_ns = Chance(random, 0.8) ? 100'000 : 0;
  scenario.options.spatial = Chance(random, 0.8);
  const bool mps = Chance(random, 0.4);
  if (mps) scenario.switch_ns = 0;
  if (seed % 4 != 0) scenario.known_switch_ns = scenario.switch_ns;
  const size_t count = 2 + random.Below(4);
  for (size_t i = 0; i < count; ++i) scenario.processes.push_back(MakeProcess(random, mps));
  if (policy == "ffs" && Chance(random, 0.4)) {
    scenario.end_ns = 50'000'000 + random.Below(50'000'000);
    for (ProcessPlan& plan : scenario.processes) {
      plan.can_preempt = plan.can_preempt || !plan.can_gate;
      plan.back_to_back = true;
      plan.kernel_ns = LogUniform(random, 300'000, 6'000'000);
      plan.kernels = 1'000'000;
    }
    return scenario;
  }
  if (policy == "hpf" && Chance(random, 0.15)) {
    scenario.processes[random.Below(count)].settings.latency_bound_ns =
        LogUniform(random, 1'000'000, 10'000'000);
  }
  if (Chance(random, 0.3)) AddFaults(random, scenario);
  if (Chance(random, 0.1)) AddFaults(random, scenario);
  if (Chance(random, 0.1)) AddDaemonDeath(random, scenario);
  if (policy == "hpf" && Chance(random, 0.1)) MakeEquals(random, scenario);
  return scenario;
}

std::string Scenario::ToString() const {
  std::string text = fmt::format(
      "seed {} policy {} switch {} us, end {} us, grace {} us, max_overhead {:.3f}, spatial {}\n",
      seed, policy, switch_ns / 1000, end_ns / 1000, options.idle_grace_ns / 1000,
      options.max_overhead, options.spatial);
  for (const ProcessPlan& plan : processes) {
    text += fmt::format(
        "  priority {} weight {} bound {} us {}{}{} start {} us, {} kernels of {} us +-{:.2f}, gap {} "
        "us{}, block {} us, {} SMs, prediction {}\n",
        plan.settings.priority, plan.settings.weight, plan.settings.latency_bound_ns / 1000,
        plan.can_preempt ? "preempt " : "", plan.can_gate ? "gate " : "",
        plan.shares_context ? "mps " : "", plan.start_ns / 1000, plan.kernels,
        plan.kernel_ns / 1000, plan.spread, plan.gap_ns / 1000,
        plan.back_to_back ? " back to back" : "", plan.block_ns / 1000, plan.sms, plan.prediction);
  }
  for (const Fault& fault : faults) {
    text += fmt::format("  at {} us fault {} to {} ({})\n", fault.at_ns / 1000,
                        static_cast<int>(fault.kind), fault.process, fault.value);
  }
  return text;
}

}  // namespace cupola::sched
