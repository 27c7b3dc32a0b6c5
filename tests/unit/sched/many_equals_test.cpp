// Many processes of the same priority: they end, one after the other or in turns, and time grows no
// faster than work. Predictions are right, wrong, of all sizes or missing, by seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sched/hpf_policy.h"
#include "simulation.h"

namespace cupola::sched {
namespace {

constexpr uint32_t kKernels = 5;

/// What equal processes say of their kernels.
enum class Predictions : uint8_t { kRight, kNone, kTooShort, kOfAllSizes };

Scenario Equals(uint64_t seed, const std::string& policy, size_t count, Predictions predictions) {
  Prng random(seed * 0x9E3779B97F4A7C15ULL + count);
  Scenario scenario;
  scenario.seed = seed;
  scenario.policy = policy;
  scenario.switch_ns = scenario.known_switch_ns = 130'000;
  ProcessPlan plan;
  plan.kernel_ns = 500'000 + random.Below(2'500'000);
  plan.kernels = kKernels;
  plan.back_to_back = true;
  plan.spread = 0.2;
  plan.can_gate = random.Below(2) == 0;
  for (size_t i = 0; i < count; ++i) {
    static constexpr double kSizes[] = {0, 0.05, 0.3, 1, 3, 20};
    plan.start_ns = random.Below(20'000'000);
    switch (predictions) {
      case Predictions::kRight: plan.prediction = 1; break;
      case Predictions::kNone: plan.prediction = 0; break;
      case Predictions::kTooShort: plan.prediction = 0.1; break;
      case Predictions::kOfAllSizes: plan.prediction = kSizes[random.Below(6)]; break;
    }
    scenario.processes.push_back(plan);
  }
  return scenario;
}

double WorkOf(const Outcome& outcome) {
  double work = 0;
  for (const ProcessOutcome& process : outcome.processes) {
    work += static_cast<double>(process.alone_ns);
  }
  return work;
}

uint64_t LongestWithoutAnEnd(const Outcome& outcome) {
  uint64_t longest = 0;
  for (size_t i = 1; i < outcome.ends_ns.size(); ++i) {
    longest = std::max(longest, outcome.ends_ns[i] - outcome.ends_ns[i - 1]);
  }
  return longest;
}

constexpr Predictions kAll[] = {Predictions::kRight, Predictions::kNone, Predictions::kTooShort,
                                Predictions::kOfAllSizes};

// They run one after the other. What comes while another runs may begin before it is told to wait: once
// for each. What is foreseen to be shorter by more than stopping costs comes first: once for each kernel.
TEST(ManyEquals, AreStoppedForOneAnotherABoundedNumberOfTimes) {
  for (const size_t count : {20, 70, 200}) {
    for (const Predictions predictions : kAll) {
      for (uint64_t seed = 1; seed <= (count < 100 ? 4 : 1); ++seed) {
        const Scenario scenario = Equals(seed, "hpf", count, predictions);
        const Outcome outcome = Simulate(scenario);
        const std::string what = fmt::format("seed {} count {} predictions {}", seed, count,
                                             static_cast<int>(predictions));
        ASSERT_TRUE(outcome.violations.empty())
            << what << fmt::format("\n{}", fmt::join(outcome.violations, "\n"));
        const bool is_foreseen =
            predictions == Predictions::kOfAllSizes || predictions == Predictions::kRight;
        EXPECT_LE(outcome.preemptions, count * (is_foreseen ? 1 + kKernels : 1)) << what;
        // Changes of context, and what comes between an end and the next beginning.
        const double work = WorkOf(outcome);
        EXPECT_LE(static_cast<double>(outcome.end_ns), work * 1.3 + 30e6) << what;
        // In each window some kernel ends.
        EXPECT_LE(LongestWithoutAnEnd(outcome), 40'000'000U) << what;
      }
    }
  }
}

TEST(ManyEquals, TakeTimeThatGrowsAsTheirWork) {
  for (const std::string policy : {"hpf", "ffs", "fifo", "reorder"}) {
    for (const Predictions predictions : kAll) {
      const uint64_t seed = 1 + static_cast<uint64_t>(predictions);
      const Outcome few = Simulate(Equals(seed, policy, 20, predictions));
      const Outcome many = Simulate(Equals(seed, policy, policy == "ffs" ? 50 : 100, predictions));
      const std::string what = fmt::format("{} seed {}", policy, seed);
      EXPECT_TRUE(few.violations.empty() && many.violations.empty())
          << what << fmt::format("\n{}", fmt::join(many.violations, "\n"));
      const double of_few = static_cast<double>(few.end_ns) / WorkOf(few);
      const double of_many = static_cast<double>(many.end_ns) / WorkOf(many);
      EXPECT_LE(of_many, of_few * 1.15 + 0.05) << what;
      // FFS may spend a tenth on switching; what its clients overrun comes on top.
      EXPECT_LE(of_many, 1.35) << what;
    }
  }
}

// One that goes on and on among many: its turns double, theirs come.
TEST(ManyEquals, WaitForABurstWithoutAnEndOnlyItsTurns) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Scenario scenario = Equals(seed, "hpf", 30, Predictions::kNone);
    ProcessPlan& endless = scenario.processes[seed % 30];
    endless.start_ns = 0;
    endless.kernels = 1'000'000;
    endless.kernel_ns = 2'000'000;
    scenario.end_ns = 3'000'000'000;
    const Outcome outcome = Simulate(scenario);
    EXPECT_TRUE(outcome.violations.empty())
        << fmt::format("{}", fmt::join(outcome.violations, "\n"));
    for (size_t i = 0; i < outcome.processes.size(); ++i) {
      if (i != seed % 30) EXPECT_EQ(outcome.processes[i].finished, kKernels) << i;
    }
    EXPECT_LE(outcome.preemptions, 2 * 30U);
  }
}

// Beside the equals: one of higher priority that comes and goes; two classes; short-lived processes; some that
// are stopped, killed or paused.
TEST(ManyEquals, EndBesideAHigherPriority) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario scenario = Equals(seed, "hpf", 50, kAll[seed % 4]);
    ProcessPlan high;
    high.settings.priority = 5;
    high.kernel_ns = 200'000;
    high.kernels = 100;
    high.gap_ns = 1'000'000;
    scenario.processes.push_back(high);
    const Outcome outcome = Simulate(scenario);
    EXPECT_TRUE(outcome.violations.empty())
        << seed << fmt::format("\n{}", fmt::join(outcome.violations, "\n"));
    // It stops whoever runs, and each equal starts once before it is told to wait; no more.
    EXPECT_LE(outcome.preemptions, 2 * 100 + 51 * (1 + kKernels)) << seed;
    // It waits for a block, a review and the changes of context, however many wait with it.
    EXPECT_LE(outcome.processes.back().longest_wait_ns, 500'000U) << seed;
  }
}

TEST(ManyEquals, EndInTwoClasses) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario scenario = Equals(seed, "hpf", 50, kAll[seed % 4]);
    for (size_t i = 0; i < 25; ++i) scenario.processes[i].settings.priority = 1;
    const Outcome outcome = Simulate(scenario);
    EXPECT_TRUE(outcome.violations.empty())
        << seed << fmt::format("\n{}", fmt::join(outcome.violations, "\n"));
    EXPECT_LE(static_cast<double>(outcome.end_ns), WorkOf(outcome) * 1.3 + 30e6) << seed;
  }
}

TEST(ManyEquals, EndWhereSomeAreStoppedKilledOrPaused) {
  for (const std::string policy : {"hpf", "ffs", "fifo"}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      Scenario scenario = Equals(seed, policy, 50, kAll[seed % 4]);
      Prng random(seed);
      for (int i = 0; i < 8; ++i) {
        const size_t process = static_cast<size_t>(i) * 6;
        const uint64_t at = random.Below(100'000'000), later = at + random.Below(100'000'000);
        switch (random.Below(3)) {
          case 0: scenario.faults.push_back({at, FaultKind::kKill, process, 0}); break;
          case 1:
            scenario.faults.push_back({at, FaultKind::kStop, process, 0});
            scenario.faults.push_back({later, FaultKind::kContinue, process, 0});
            break;
          default:
            scenario.faults.push_back({at, FaultKind::kPause, process, 0});
            scenario.faults.push_back({later, FaultKind::kUnpause, process, 0});
        }
      }
      const Outcome outcome = Simulate(scenario);
      EXPECT_TRUE(outcome.violations.empty())
          << policy << seed << fmt::format("\n{}", fmt::join(outcome.violations, "\n"));
      for (const ProcessOutcome& process : outcome.processes) EXPECT_LE(process.finished, kKernels);
    }
  }
}

/// Equals stop one another as soon as one has outlived its prediction.
class Impatient : public HpfPolicy {
 public:
  using HpfPolicy::HpfPolicy;

 protected:
  bool Pays(const LaunchView& running, const LaunchView& waiting) const override {
    return running.remaining_ns > waiting.remaining_ns + running.overhead_ns;
  }
};

TEST(PlantedMistakes, EqualsStopOneAnotherWhenPredictionsFail) {
  const Scenario scenario = Equals(1, "hpf", 60, Predictions::kTooShort);
  const Outcome outcome =
      Simulate(scenario, [&] { return std::make_unique<Impatient>(scenario.options); });
  EXPECT_GT(outcome.preemptions, 60U);
}

/// A turn is never over.
class NeverOver : public HpfPolicy {
 public:
  using HpfPolicy::HpfPolicy;

 protected:
  uint64_t Turn(const LaunchView&, uint32_t) const override { return uint64_t{1} << 50; }
};

TEST(PlantedMistakes, ABurstWithoutAnEndKeepsItsEqualsFromTheGpu) {
  Scenario scenario = Equals(1, "hpf", 5, Predictions::kNone);
  scenario.processes[0].start_ns = 0;
  scenario.processes[0].kernels = 1'000'000;
  scenario.end_ns = 1'000'000'000;
  const Outcome outcome =
      Simulate(scenario, [&] { return std::make_unique<NeverOver>(scenario.options); });
  EXPECT_LT(outcome.processes[1].finished, kKernels);
}

}  // namespace
}  // namespace cupola::sched
