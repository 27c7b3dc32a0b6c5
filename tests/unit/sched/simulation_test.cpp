// 10,000 seeded scenarios, and policies with a mistake in them that the checkers must find.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sched/corun_policy.h"
#include "sched/ffs_policy.h"
#include "sched/hpf_policy.h"
#include "simulation.h"

namespace cupola::sched {
namespace {

/// Runs `count` scenarios of the policy from `first`; stops at the first that breaks a rule.
void RunMany(const std::string& policy, uint64_t first, uint64_t count) {
  uint64_t preemptions = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = MakeScenario(seed, policy);
    const Outcome outcome = Simulate(scenario);
    preemptions += outcome.preemptions;
    ASSERT_TRUE(outcome.violations.empty())
        << fmt::format("{}", fmt::join(outcome.violations, "\n")) << "\n" << scenario.ToString();
  }
  if (policy == "hpf" || policy == "ffs") {
    EXPECT_GT(preemptions, count / 2);
  }
}

TEST(Scenarios, HpfA) { RunMany("hpf", 0, 2000); }
TEST(Scenarios, HpfB) { RunMany("hpf", 2000, 2000); }
TEST(Scenarios, FfsA) { RunMany("ffs", 0, 1500); }
TEST(Scenarios, FfsB) { RunMany("ffs", 1500, 1500); }
TEST(Scenarios, Fifo) { RunMany("fifo", 0, 1000); }
TEST(Scenarios, Reorder) { RunMany("reorder", 0, 1000); }
TEST(Scenarios, Corun) { RunMany("corun", 0, 1000); }

TEST(Scenarios, SameSeedSameTrace) {
  for (const std::string_view policy : PolicyNames()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Scenario scenario = MakeScenario(seed, std::string(policy));
      const Outcome once = Simulate(scenario);
      const Outcome again = Simulate(scenario);
      EXPECT_EQ(once.trace, again.trace) << scenario.ToString();
      EXPECT_EQ(once.steps, again.steps);
    }
  }
  EXPECT_NE(Simulate(MakeScenario(1, "hpf")).trace, Simulate(MakeScenario(2, "hpf")).trace);
}

/// Scenarios in which the daemon dies, of the first 10,000 of a policy.
std::vector<Scenario> DaemonDeaths(const std::string& policy) {
  std::vector<Scenario> scenarios;
  for (uint64_t seed = 0; seed < 10'000 && scenarios.size() < 300; ++seed) {
    Scenario scenario = MakeScenario(seed, policy);
    const bool dies = std::any_of(
        scenario.faults.begin(), scenario.faults.end(),
        [](const Fault& fault) { return fault.kind == FaultKind::kDaemonDies; });
    if (dies) scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

TEST(PlantedMistakes, TheHoldsOfADeadDaemonStand) {
  for (const char* policy : {"hpf", "ffs", "fifo"}) {
    int found = 0;
    for (Scenario& scenario : DaemonDeaths(policy)) {
      scenario.clients_miss_the_daemon = false;
      if (!Simulate(scenario).violations.empty()) ++found;
    }
    EXPECT_GT(found, 10) << policy;
  }
}

/// How many of 300 scenarios show that something is wrong with the policies that `make` gives.
template <typename Make>
int Found(const std::string& policy, Make make) {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Scenario scenario = MakeScenario(seed, policy);
    if (!Simulate(scenario, [&] { return make(scenario.options); }).violations.empty()) ++found;
  }
  return found;
}

/// A policy that does what another does, changed by `Mistake`.
template <typename Base>
class Mistaken : public Base {
 public:
  using Change = std::function<void(const Snapshot&, Decision&)>;
  Mistaken(const PolicyOptions& options, Change change)
      : Base(options), change_(std::move(change)) {}
  explicit Mistaken(Change change) : change_(std::move(change)) {}
  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override {
    Base::Decide(events, snapshot, decision);
    change_(snapshot, decision);
  }

 private:
  Change change_;
};

TEST(PlantedMistakes, NobodyRunsNowAndThen) {
  EXPECT_GT(Found("hpf",
                  [](const PolicyOptions& options) {
                    auto calls = std::make_shared<int>(0);
                    return std::make_unique<Mistaken<HpfPolicy>>(
                        options, [calls](const Snapshot&, Decision& decision) {
                          if (++*calls % 5 == 0) decision.grants.clear();
                        });
                  }),
            10);
}

TEST(PlantedMistakes, TheLowestPriorityRuns) {
  EXPECT_GT(Found("hpf",
                  [](const PolicyOptions& options) {
                    return std::make_unique<Mistaken<HpfPolicy>>(
                        options, [](const Snapshot& snapshot, Decision& decision) {
                          const LaunchView* lowest = nullptr;
                          for (const LaunchView& launch : snapshot.launches) {
                            if (lowest == nullptr || launch.priority < lowest->priority) {
                              lowest = &launch;
                            }
                          }
                          decision.grants.clear();
                          if (lowest == nullptr) return;
                          decision.grants.push_back({lowest->client, lowest->sequence});
                        });
                  }),
            30);
}

TEST(PlantedMistakes, EverybodyRuns) {
  EXPECT_GT(Found("hpf",
                  [](const PolicyOptions& options) {
                    return std::make_unique<Mistaken<HpfPolicy>>(
                        options, [](const Snapshot& snapshot, Decision& decision) {
                          decision.grants.clear();
                          for (const LaunchView& launch : snapshot.launches) {
                            decision.grants.push_back({launch.client, launch.sequence});
                          }
                        });
                  }),
            30);
}

TEST(PlantedMistakes, NobodyRunsBesideAnother) {
  EXPECT_GT(Found("corun",
                  [](const PolicyOptions&) {
                    return std::make_unique<Mistaken<CorunPolicy>>(
                        [](const Snapshot&, Decision& decision) {
                          if (decision.grants.size() > 1) decision.grants.resize(1);
                        });
                  }),
            30);
}

TEST(PlantedMistakes, AGrantOfALaunchThatIsOver) {
  EXPECT_GT(Found("hpf",
                  [](const PolicyOptions& options) {
                    return std::make_unique<Mistaken<HpfPolicy>>(
                        options, [](const Snapshot&, Decision& decision) {
                          for (Grant& grant : decision.grants) grant.sequence -= 2;
                        });
                  }),
            30);
}

/// Preempts whether it pays or not: the one with more left always gets the GPU.
class AlwaysLongest : public HpfPolicy {
 public:
  using HpfPolicy::HpfPolicy;

 protected:
  bool Pays(const LaunchView&, const LaunchView&) const override { return true; }
};

TEST(PlantedMistakes, PreemptsThoughItDoesNotPay) {
  // Two equal kernels: the second is to wait for the first, not to swap with it at each review.
  Scenario scenario;
  for (int i = 0; i < 2; ++i) {
    ProcessPlan plan;
    plan.kernel_ns = 5'000'000;
    plan.start_ns = i * 100'000;
    scenario.processes.push_back(plan);
  }
  EXPECT_EQ(Simulate(scenario).preemptions, 1U);  // the second started before it was told to wait
  const auto mistaken = [&] { return std::make_unique<AlwaysLongest>(scenario.options); };
  EXPECT_GT(Simulate(scenario, mistaken).preemptions, 1U);
}

/// Turns of equal length, whatever the weights.
class Unweighted : public FfsPolicy {
 public:
  using FfsPolicy::FfsPolicy;

 protected:
  uint64_t Turn(const ClientView&, const Epoch& epoch) const override { return 2 * epoch.unit_ns; }
};

TEST(PlantedMistakes, WeightsForgotten) {
  EXPECT_GT(Found("ffs",
                  [](const PolicyOptions& options) { return std::make_unique<Unweighted>(options); }),
            30);
}

/// Tells a turn, and takes a hundred.
class Endless : public FfsPolicy {
 public:
  using FfsPolicy::FfsPolicy;
  uint64_t WaitBound(const Snapshot& snapshot, const ClientView& client) const override {
    return FfsPolicy::WaitBound(snapshot, client) / 100;
  }

 protected:
  uint64_t Turn(const ClientView& client, const Epoch& epoch) const override {
    return 100 * epoch.TurnOf(client.weight);
  }
};

TEST(PlantedMistakes, TurnsWithoutEnd) {
  EXPECT_GT(Found("ffs",
                  [](const PolicyOptions& options) { return std::make_unique<Endless>(options); }),
            20);
}

/// Switches ten times as often as the overhead bound allows.
class Hasty : public FfsPolicy {
 public:
  using FfsPolicy::FfsPolicy;

 protected:
  uint64_t Turn(const ClientView& client, const Epoch& epoch) const override {
    return epoch.TurnOf(client.weight) / 10;
  }
};

TEST(PlantedMistakes, SwitchesTooOften) {
  EXPECT_GT(Found("ffs",
                  [](const PolicyOptions& options) { return std::make_unique<Hasty>(options); }),
            10);
}

}  // namespace
}  // namespace cupola::sched
