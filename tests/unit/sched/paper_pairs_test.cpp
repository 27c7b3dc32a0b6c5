// Policies compared on pairs of the paper's programs (FLEP table 1, section 6).
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "sched/hpf_policy.h"
#include "simulation.h"

namespace cupola::sched {
namespace {

// Table 1 of the paper, in us on its GPU: the large and the small input of each program.
struct PaperProgram {
  const char* name;
  uint64_t large_us;
  uint64_t small_us;
};
constexpr PaperProgram kPrograms[] = {{"CFD", 11106, 521}, {"NN", 15775, 728}, {"PF", 7364, 811},
                                      {"PL", 5419, 952},   {"MD", 15905, 938}, {"SPMV", 5840, 484},
                                      {"MM", 2579, 1499},  {"VA", 30634, 720}};

Scenario Pair(const std::string& policy, uint64_t first_us, uint64_t second_us,
              int32_t second_priority) {
  Scenario scenario;
  scenario.policy = policy;
  scenario.switch_ns = 0;
  for (const uint64_t us : {first_us, second_us}) {
    ProcessPlan plan;
    plan.start_ns = scenario.processes.empty() ? 0 : 200'000;
    plan.kernel_ns = us * kUs;
    plan.shares_context = true;
    scenario.processes.push_back(plan);
  }
  scenario.processes[1].settings.priority = second_priority;
  return scenario;
}

double Antt(const Outcome& outcome) {
  double sum = 0;
  for (const ProcessOutcome& process : outcome.processes) {
    sum += static_cast<double>(process.turnaround_ns) / static_cast<double>(process.alone_ns);
  }
  return sum / static_cast<double>(outcome.processes.size());
}

TEST(PaperPairs, HpfBeatsFifoAndReorderingDoesNot) {
  double improvement = 0;
  double reordering = 0;
  double stp_loss = 0;
  int pairs = 0;
  for (const PaperProgram& large : kPrograms) {
    for (const char* name : {"MD", "MM", "SPMV", "VA"}) {
      const auto small = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                      [&](const PaperProgram& p) { return p.name == std::string(name); });
      if (std::string(large.name) == name) continue;
      const Outcome fifo = Simulate(Pair("fifo", large.large_us, small->small_us, 0));
      const Outcome reorder = Simulate(Pair("reorder", large.large_us, small->small_us, 0));
      const Outcome hpf = Simulate(Pair("hpf", large.large_us, small->small_us, 0));
      improvement += Antt(fifo) / Antt(hpf);
      reordering += Antt(fifo) / Antt(reorder);
      stp_loss += static_cast<double>(hpf.end_ns) / static_cast<double>(fifo.end_ns) - 1;
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 28);
  RecordProperty("antt_improvement", std::to_string(improvement / pairs));
  EXPECT_GT(improvement / pairs, 4);
  EXPECT_NEAR(reordering / pairs, 1, 0.03);  // the long kernel has started: nothing to reorder
  EXPECT_LT(stp_loss / pairs, 0.02);
}

TEST(PaperPairs, PriorityGivesTheSmallKernelTheGpu) {
  double speedup = 0;
  int pairs = 0;
  for (const PaperProgram& large : {kPrograms[0], kPrograms[1], kPrograms[2], kPrograms[3]}) {
    for (const PaperProgram& small : kPrograms) {
      if (std::string(large.name) == small.name) continue;
      const Outcome fifo = Simulate(Pair("fifo", large.large_us, small.small_us, 1));
      const Outcome hpf = Simulate(Pair("hpf", large.large_us, small.small_us, 1));
      speedup += static_cast<double>(fifo.processes[1].turnaround_ns) /
                 static_cast<double>(hpf.processes[1].turnaround_ns);
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 28);
  RecordProperty("high_priority_speedup", std::to_string(speedup / pairs));
  EXPECT_GT(speedup / pairs, 8);
}

}  // namespace
}  // namespace cupola::sched
