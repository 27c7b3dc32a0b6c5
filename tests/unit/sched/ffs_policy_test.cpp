// FFS case by case: turns, shares, debts (FLEP section 5.2.2).
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "sched/ffs_policy.h"
#include "policy_bench.h"
#include "simulation.h"

namespace cupola::sched {
namespace {

// Whatever the overheads and the weights: a length that is no number any more.
TEST(Ffs, ATurnBeyondAllBoundsIsGiven) {
  for (const uint64_t overhead_ns : {uint64_t{1} << 59, uint64_t{1} << 60, ~uint64_t{0}}) {
    Bench bench("ffs");
    const ClientId first = bench.Add(0, 4), second = bench.Add(0, 1);
    for (const ClientId id : {first, second}) bench.Of(id).overhead_ns = overhead_ns;
    bench.Want(first, 1000);
    bench.Want(second, 1000);
    bench.Review(1000);
    EXPECT_EQ(bench.Running(), "0") << overhead_ns;
    bench.End(first);
    bench.Review(1000);
    EXPECT_EQ(bench.Running(), "1") << overhead_ns;
  }
}

TEST(Ffs, EverybodyButOneAloneMayBeHeld) {
  Bench bench("ffs");
  const ClientId first = bench.Add(0);
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(first), HeldFor::kNobody);
  bench.Add(0);
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(first), HeldFor::kAnyone);
}

TEST(Ffs, EpochFollowsTheOverheadBound) {
  // 5.2.2: (100 + 100) / (T * (2 + 1)) < 0.1, so T is just above 666.67 us.
  Bench bench("ffs", {.max_overhead = 0.1, .quantum_ns = 0});
  bench.Want(bench.Add(0, 2), 1'000'000);
  bench.Want(bench.Add(0, 1), 1'000'000);
  const auto& policy = dynamic_cast<const FfsPolicy&>(bench.core_.policy());
  EXPECT_EQ(policy.EpochOf(bench.core_.snapshot()).unit_ns, 666'667U);
  EXPECT_EQ(bench.Running(), "0");
  bench.Review(1333);
  EXPECT_EQ(bench.Running(), "0");
  bench.Review(1);
  EXPECT_EQ(bench.Running(), "1");
  bench.Review(667);
  EXPECT_EQ(bench.Running(), "0");
}

/// The turns that two clients of these weights have when they need no time to leave, in us.
std::pair<uint64_t, uint64_t> TurnsOf(uint32_t first, uint32_t second, PolicyOptions options) {
  Bench bench("ffs", options);
  for (const uint32_t weight : {first, second}) {
    const ClientId id = bench.Add(0, weight);
    bench.Of(id).overhead_ns = 1;
    bench.Want(id, 10'000'000'000);
  }
  std::vector<uint64_t> changes;
  std::string before = bench.Running();
  for (uint64_t us = 0; us < 4'000'000 && changes.size() < 3; us += 50) {
    bench.Review(50);
    if (std::exchange(before, bench.Running()) != before) changes.push_back(us);
  }
  if (changes.size() < 3) return {};
  const uint64_t turns[] = {changes[1] - changes[0], changes[2] - changes[1]};
  return before == "1" ? std::pair(turns[1], turns[0]) : std::pair(turns[0], turns[1]);
}

TEST(Ffs, OfWeightsOnlyTheRatiosCount) {
  const PolicyOptions options{.quantum_ns = 500 * kUs, .epoch_ns = 1'000'000 * kUs};
  for (const uint32_t factor : {1U, 7U, 1000U, 250'000U}) {
    EXPECT_EQ(TurnsOf(factor, factor, options), std::pair(uint64_t{500}, uint64_t{500})) << factor;
    EXPECT_EQ(TurnsOf(4 * factor, factor, options), std::pair(uint64_t{2000}, uint64_t{500})) << factor;
    EXPECT_EQ(TurnsOf(2 * factor, 4 * factor, options), std::pair(uint64_t{500}, uint64_t{1000})) << factor;
  }
}

TEST(Ffs, NoRoundIsLongerThanTheEpoch) {
  const auto [many, few] = TurnsOf(1'000'000, 1, {.quantum_ns = 500 * kUs, .epoch_ns = 1'000'000 * kUs});
  EXPECT_NEAR(static_cast<double>(many), 1e6, 1500);
  EXPECT_EQ(few, 500U) << "the quantum, whatever its weight";
  // A shorter epoch, and one that is shorter than what everybody needs.
  EXPECT_EQ(TurnsOf(1000, 1, {.quantum_ns = 500 * kUs, .epoch_ns = 10'010 * kUs}),
            std::pair(uint64_t{10'000}, uint64_t{500}));
  EXPECT_EQ(TurnsOf(3, 1, {.quantum_ns = 500 * kUs, .epoch_ns = 100 * kUs}), std::pair(uint64_t{500}, uint64_t{500}));
}

/// Two clients of weights 2 and 1 that want the GPU for a second and need 10 us to leave it, and
/// 140 for a change of contexts where they share none.
void WantTwoToOne(Bench* bench, bool shares_context) {
  bench->core_.SetSwitchTime(140 * kUs);
  for (const uint32_t weight : {2U, 1U}) {
    const ClientId id = bench->Add(0, weight);
    bench->Of(id).overhead_ns = 10 * kUs;
    bench->Of(id).shares_context = shares_context;
    bench->Want(id, 1'000'000);
  }
}

// To what a client says of itself the GPU's change of contexts is added, unless it shares one.
TEST(Ffs, EpochFollowsTheChangeOfContextsToo) {
  for (const bool shares : {false, true}) {
    Bench bench("ffs", {.max_overhead = 0.1, .quantum_ns = 0});
    WantTwoToOne(&bench, shares);
    const auto& policy = dynamic_cast<const FfsPolicy&>(bench.core_.policy());
    // 2 x (10 + 140) / (T x 3) < 0.1
    const auto unit = static_cast<double>(policy.EpochOf(bench.core_.snapshot()).unit_ns);
    EXPECT_NEAR(unit, shares ? 66'667 : 1'000'000, 1);
  }
}

// Who takes much longer to leave than it says waits itself: the GPU has gone over to the next one's
// context for a time slice. Two that share a context share the time until it has left.
TEST(Ffs, ATimeSliceOfTheNextOneIsNoTimeOfWhoLeaves) {
  for (const bool shares : {false, true}) {
    Bench bench("ffs", {.max_overhead = 0.1, .quantum_ns = 10'000 * kUs});
    WantTwoToOne(&bench, shares);
    bench.Review(shares ? 19'999 : 20'139);
    ASSERT_EQ(bench.Running(), "0");
    bench.lingers_ = true;
    bench.Review(1);
    ASSERT_EQ(bench.Running(), "1");
    const auto ran_us = [&](uint32_t id) { return bench.core_.ViewOf(ClientId(id)).ran_ns / kUs; };
    const uint64_t before[] = {ran_us(0), ran_us(1)};
    for (int i = 0; i < 20; ++i) bench.Review(100);
    // Twice 10 + 140 us are its own; then comes the change of contexts.
    EXPECT_EQ(ran_us(0) - before[0], shares ? 1'000U : 300U);
    EXPECT_EQ(ran_us(1) - before[1], shares ? 1'000U : 2'000U - 300 - 140);
    bench.lingers_ = false;
    bench.Review(0);
    bench.Review(100);
    EXPECT_EQ(ran_us(0) - before[0], shares ? 1'000U : 300U);
  }
}

TEST(Ffs, AnIdleHolderKeepsItsTurnForAGraceOnly) {
  Bench bench("ffs", {.idle_grace_ns = 100 * kUs});
  const ClientId a = bench.Add(0);
  const ClientId b = bench.Add(0);
  bench.Want(a, 500);
  bench.Want(b, 500);
  bench.End(a);
  EXPECT_EQ(bench.Running(), "");
  EXPECT_EQ(bench.core_.review_ns(), bench.now_ + 100 * kUs);
  EXPECT_TRUE(bench.core_.OrderFor(b).hold);
  bench.Review(99);
  bench.Want(a, 500);
  EXPECT_EQ(bench.Running(), "0");
  bench.End(a);
  bench.Review(100);
  EXPECT_EQ(bench.Running(), "1");
}

// A process is stopped by a signal behind its kernel: until its lease ends it has turns, and does not answer when they are
// over. Who comes next has the GPU at once, and is to pay for it.
TEST(Ffs, SharesHoldBesideOneThatDoesNotAnswer) {
  Scenario scenario;
  scenario.policy = "ffs";
  scenario.seed = 3;
  scenario.known_switch_ns = scenario.switch_ns;
  scenario.options.quantum_ns = 50'000 * kUs;
  scenario.end_ns = 10'000'000 * kUs;
  for (int i = 0; i < 3; ++i) {
    ProcessPlan plan;
    plan.can_preempt = i != 0;
    plan.can_gate = i == 0;
    plan.start_ns = i == 0 ? 0 : 1000 * kUs;
    plan.kernel_ns = i == 0 ? 30'000 * kUs : 700'000 * kUs;
    plan.kernels = 1'000'000;
    plan.back_to_back = true;
    plan.lease_ns = 20'000'000 * kUs;
    scenario.processes.push_back(plan);
  }
  scenario.faults.push_back({.at_ns = 20'000 * kUs, .kind = FaultKind::kStop});
  const Outcome outcome = Simulate(scenario);
  const double first = outcome.processes[1].gpu_ns, second = outcome.processes[2].gpu_ns;
  EXPECT_GT(first + second, 5e9);
  // Once it was waited for.
  EXPECT_NEAR(first, second, 200e6) << first / second;
}

/// Two clients that always have work, of weights `first` and 1. The first can only be held at gates, so that its time on
/// the GPU after its turn is its own.
void AddTwoThatStay(Bench& bench, uint32_t first) {
  for (const uint32_t i : {0U, 1U}) {
    const ClientId id = bench.Add(0, i == 0 ? first : 1);
    bench.Of(id).can_preempt = i == 1;
    bench.Of(id).can_gate = i == 0;
    bench.Want(id, 10'000'000);
  }
}

// Who has not answered in 100 ms is not waited for again, until it has given a sign of life.
TEST(Ffs, WhoDoesNotAnswerIsWaitedForOnce) {
  Bench bench("ffs", {.max_overhead = 0.1, .quantum_ns = 10'000 * kUs});
  AddTwoThatStay(bench, 1);
  const auto charged_of_turn_us = [&](bool lingers) {
    while (bench.Running() != "0") bench.Review(100);
    while (bench.Running() != "1") {
      bench.lingers_ = lingers;
      bench.Review(100);
    }
    const uint64_t before = bench.core_.ViewOf(ClientId(0)).ran_ns;
    for (int i = 0; i < 1100 && bench.Running() == "1"; ++i) bench.Review(100);
    return (bench.core_.ViewOf(ClientId(0)).ran_ns - before) / kUs;
  };
  EXPECT_EQ(charged_of_turn_us(false), 0U);
  EXPECT_NEAR(static_cast<double>(charged_of_turn_us(true)), 100'000, 200);
  EXPECT_EQ(charged_of_turn_us(true), 0U) << "it has not answered before";
  EXPECT_EQ(charged_of_turn_us(false), 0U);
  EXPECT_NEAR(static_cast<double>(charged_of_turn_us(true)), 100'000, 200) << "it has answered since";
  bench.Of(ClientId(0)).sequence += 1;
  EXPECT_NEAR(static_cast<double>(charged_of_turn_us(true)), 100'000, 200) << "it has come with other work";
}

// Who is held at gates says that it has stopped when even its longest kernel must be over. It is charged for the time that
// it takes to come to a gate on average, whatever the reviews' times are; from then on whoever comes next has the GPU.
TEST(Ffs, WhoComesToAGateIsChargedUntilThen) {
  Bench bench("ffs", {.max_overhead = 0.1, .quantum_ns = 10'000 * kUs});
  AddTwoThatStay(bench, 1);
  const auto charged_us = [&](uint64_t overhead_us, uint64_t review_us) {
    bench.lingers_ = false;
    while (bench.Running() != "0") bench.Review(100);
    bench.Of(ClientId(0)).overhead_ns = overhead_us * kUs;
    while (bench.Running() != "1") {
      bench.lingers_ = true;
      bench.Review(100);
    }
    std::array<uint64_t, 2> before{}, charged{};
    for (const uint32_t i : {0U, 1U}) before[i] = bench.core_.ViewOf(ClientId(i)).ran_ns;
    for (uint64_t at = 0; at < 3000; at += review_us) bench.Review(review_us);
    for (const uint32_t i : {0U, 1U}) charged[i] = (bench.core_.ViewOf(ClientId(i)).ran_ns - before[i]) / kUs;
    return charged;
  };
  using Charged = std::array<uint64_t, 2>;
  for (const uint64_t review_us : {100U, 500U, 3000U}) {
    EXPECT_EQ(charged_us(150, review_us), (Charged{150, 2850})) << review_us;
    EXPECT_EQ(charged_us(2950, review_us), (Charged{2950, 50})) << review_us;
    EXPECT_EQ(charged_us(0, review_us), (Charged{3000, 0})) << "it does not know, " << review_us;
  }
}

const PolicyOptions kTenMs{.max_overhead = 0.5, .quantum_ns = 10'000 * kUs};

/// Ends the first one's next turn so that it stays on the GPU for `us` more.
void Overrun(Bench& bench, uint64_t us) {
  while (bench.Running() != "0") bench.Review(100);
  bench.lingers_ = true;
  while (bench.Running() != "1") bench.Review(100);
  for (uint64_t left = us; left != 0; left -= 100) bench.Review(100);
  bench.lingers_ = false;
}

/// GPU time of both in the next `us`, in us.
std::array<uint64_t, 2> RanInNext(Bench& bench, uint64_t us) {
  std::array<uint64_t, 2> before{}, after{};
  for (const uint32_t i : {0U, 1U}) before[i] = bench.core_.ViewOf(ClientId(i)).ran_ns;
  for (uint64_t left = us; left != 0; left -= 100) bench.Review(100);
  for (const uint32_t i : {0U, 1U}) after[i] = bench.core_.ViewOf(ClientId(i)).ran_ns;
  return {(after[0] - before[0]) / kUs, (after[1] - before[1]) / kUs};
}

// What a client has run under another policy is no debt.
TEST(Ffs, NobodyOwesWhatItRanBefore) {
  Bench bench("hpf");
  const ClientId a = bench.Add(0);
  bench.Want(a, 10'000'000);
  for (int i = 0; i < 1000; ++i) bench.Review(1000);
  const ClientId b = bench.Add(0);
  bench.core_.SetPolicy(MakePolicy("ffs", kTenMs));
  bench.Want(b, 10'000'000);
  const auto [first, second] = RanInNext(bench, 80'000);
  EXPECT_NEAR(static_cast<double>(first), static_cast<double>(second), 10'500);
}

// The configuration is read again, and wants the same policy: whose turn it is, and who owes, stays.
TEST(Ffs, DebtsOutliveAReload) {
  for (const bool reloads : {false, true}) {
    Bench bench("ffs", kTenMs);
    AddTwoThatStay(bench, 1);
    Overrun(bench, 90'000);
    if (reloads) bench.core_.SetPolicy(MakePolicy("ffs", kTenMs));
    const auto [first, second] = RanInNext(bench, 40'000);
    EXPECT_LE(first, 500U) << reloads;  // it owes four turns
    EXPECT_GE(second, 39'000U) << reloads;
  }
  Bench bench("ffs", kTenMs);
  AddTwoThatStay(bench, 1);
  while (bench.Running() != "1") bench.Review(100);
  bench.Review(5000);
  bench.core_.SetPolicy(MakePolicy("ffs", kTenMs));
  bench.Review(4000);
  EXPECT_EQ(bench.Running(), "1") << "its turn goes on";
  bench.Review(1500);
  EXPECT_EQ(bench.Running(), "0") << "and is no longer than it was";
}

// The longest turn is one and a half, also for a client whose turns were longer when it got a longer one for having sat
// one out.
TEST(Ffs, ALongerTurnIsMeasuredByTheWeightOfNow) {
  Bench bench("ffs", kTenMs);
  AddTwoThatStay(bench, 8);
  Overrun(bench, 60'000);  // more than half of its 80,000
  while (bench.core_.policy().Dump().find("debt_ns[0]=-") == std::string::npos) bench.Review(100);
  EXPECT_EQ(bench.Running(), "1");
  bench.core_.Configure(ClientId(0), {.priority = 0, .weight = 1});
  while (bench.Running() != "0") bench.Review(100);
  uint64_t turn_us = 0;
  for (; bench.Running() == "0"; turn_us += 100) bench.Review(100);
  EXPECT_NEAR(static_cast<double>(turn_us), 15'000, 500);
}

/// Two processes that never end, of weights 2 and 1, with kernels so long.
void AddTwoToOne(Scenario* scenario, std::array<uint64_t, 2> kernel_ns, uint64_t block_ns) {
  for (const uint32_t weight : {2U, 1U}) {
    ProcessPlan plan;
    plan.settings.weight = weight;
    plan.kernel_ns = kernel_ns[2 - weight];
    plan.kernels = 1'000'000;
    plan.gap_ns = 15'000;
    plan.block_ns = block_ns;
    scenario->processes.push_back(plan);
  }
}

double ShareOfFirst(const Outcome& outcome) {
  return outcome.processes[0].gpu_ns /
         (outcome.processes[0].gpu_ns + outcome.processes[1].gpu_ns);
}

// Turns of a millisecond or two, of which the GPU takes a good part to change contexts.
TEST(Ffs, SwitchingIsNoPartOfTurns) {
  double off[2];
  for (const uint64_t known_ns : {0, 200'000}) {
    Scenario scenario;
    scenario.policy = "ffs";
    scenario.seed = 11;
    scenario.switch_ns = 200'000;
    scenario.known_switch_ns = known_ns;
    scenario.options.max_overhead = 0.3;
    scenario.end_ns = 2'000'000'000;
    AddTwoToOne(&scenario, {700'000, 15'900'000}, 20'000);
    const Outcome outcome = Simulate(scenario);
    EXPECT_TRUE(outcome.violations.empty() || known_ns == 0) << outcome.violations[0];
    off[known_ns != 0] = std::abs(ShareOfFirst(outcome) - 2.0 / 3);
  }
  EXPECT_GT(off[0], 0.03);
  EXPECT_LT(off[1], 0.01);
}

TEST(Ffs, SharesAreTwoToOneWithinTwoPoints) {
  Scenario scenario;
  scenario.policy = "ffs";
  scenario.seed = 7;
  scenario.switch_ns = 130'000;
  scenario.end_ns = 2'000'000'000;
  AddTwoToOne(&scenario, {900'000, 2'900'000}, 200'000);
  const Outcome outcome = Simulate(scenario);
  EXPECT_NEAR(ShareOfFirst(outcome), 2.0 / 3, 0.02);
  EXPECT_LT(outcome.switching_ns, 0.1 * 2e9);
}

}  // namespace
}  // namespace cupola::sched
