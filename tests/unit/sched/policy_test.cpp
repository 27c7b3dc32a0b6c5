// HPF and the co-run policy case by case, and the times that policies count with (FLEP figure 6).
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "sched/ffs_policy.h"
#include "sched/hpf_policy.h"
#include "policy_bench.h"
#include "simulation.h"

namespace cupola::sched {
namespace {

/// T_e, T_w and T_r of a client's launch in us, "1000 0 600".
std::string Triplet(const Bench& bench, ClientId id) {
  const LaunchView& launch = *bench.core_.LaunchOf(id);
  return fmt::format("{} {} {}", launch.expected_ns / kUs, launch.waited_ns / kUs,
                     launch.remaining_ns / kUs);
}

TEST(TimeRemaining, FallsOnlyWhileTheLaunchRuns) {
  Bench bench("hpf");
  const ClientId low = bench.Add(0), high = bench.Add(1);
  bench.Want(low, 1000);
  EXPECT_EQ(Triplet(bench, low), "1000 0 1000");
  bench.Review(400);
  EXPECT_EQ(Triplet(bench, low), "1000 0 600");
  bench.Want(high, 300);
  bench.Review(250);
  EXPECT_EQ(Triplet(bench, low), "1000 250 600");
  EXPECT_EQ(Triplet(bench, high), "300 0 50");
  bench.End(high);
  bench.Review(500);
  EXPECT_EQ(Triplet(bench, low), "1000 250 100");
}

TEST(TimeRemaining, AnOverrunIsExpectedToGoOnAndANewWordHolds) {
  Bench bench("hpf");
  const ClientId id = bench.Add(0);
  bench.Want(id, 1000);
  bench.Review(1000);
  EXPECT_EQ(Triplet(bench, id), "1000 0 0");
  bench.Review(700);
  EXPECT_EQ(Triplet(bench, id), "1000 0 700");
  bench.Of(id).remaining_ns = 5000 * kUs;  // of the same burst of launches
  bench.Review(10);
  EXPECT_EQ(Triplet(bench, id), "1000 0 5000");
  bench.Review(40);
  EXPECT_EQ(Triplet(bench, id), "1000 0 4960");
}

TEST(Hpf, HigherPriorityPreemptsAndTheOtherGoesOnAfterIt) {
  Bench bench("hpf");
  const ClientId low = bench.Add(0);
  const ClientId high = bench.Add(5);
  bench.Want(low, 10'000);
  EXPECT_EQ(bench.Running(), "0");
  EXPECT_TRUE(bench.core_.MayTake(high, low));
  EXPECT_FALSE(bench.core_.MayTake(low, high));
  bench.Want(high, 20'000);
  EXPECT_EQ(bench.Running(), "1");
  EXPECT_TRUE(bench.core_.OrderFor(low).hold);
  EXPECT_TRUE(bench.core_.OrderFor(low).is_next);
  bench.End(high);
  EXPECT_EQ(bench.Running(), "0");
  EXPECT_FALSE(bench.core_.OrderFor(low).hold);
}

TEST(Hpf, LowerPriorityWaits) {
  Bench bench("hpf");
  const ClientId high = bench.Add(5);
  const ClientId low = bench.Add(0);
  bench.Want(high, 10'000);
  bench.Want(low, 1);
  EXPECT_EQ(bench.Running(), "0");
}

TEST(Hpf, SamePriorityPreemptsOnlyIfItPays) {
  // Figure 6: Kr.Tr > Ks.Tr + preemption_overhead, here 100 us.
  for (const auto& [arriving_us, running] : std::vector<std::pair<uint64_t, std::string>>{
           {899, "1"}, {900, "0"}, {901, "0"}, {5000, "0"}}) {
    Bench bench("hpf");
    const ClientId first = bench.Add(1);
    const ClientId second = bench.Add(1);
    bench.Want(first, 1500);
    bench.Review(500);  // 1000 us remain
    bench.Want(second, arriving_us);
    EXPECT_EQ(bench.Running(), running) << arriving_us;
  }
}

// Each has overrun its prediction, and so has more left than the other says of itself.
TEST(Hpf, OfTwoThatWaitNoneMayTakeItsEqual) {
  Bench bench("hpf");
  const ClientId first = bench.Add(1), second = bench.Add(1), high = bench.Add(2);
  const ClientId low = bench.Add(0);
  for (const ClientId id : {first, second}) {
    bench.Want(id, 1000);
    bench.Review(11'000);
    bench.Want(high, 100);
    if (id == first) bench.End(high);
  }
  bench.Want(low, 1000);
  ASSERT_EQ(bench.Running(), "2");
  EXPECT_FALSE(bench.core_.MayTake(first, second));
  EXPECT_FALSE(bench.core_.MayTake(second, first));
  EXPECT_TRUE(bench.core_.MayTake(first, low));
  EXPECT_TRUE(bench.core_.MayTake(high, first));
}

TEST(Hpf, AtTheEndTheShortestOfTheHighestPriorityIsNext) {
  Bench bench("hpf");
  const ClientId running = bench.Add(9);
  for (const auto& [priority, us] : std::vector<std::pair<int32_t, uint64_t>>{
           {1, 10}, {2, 900}, {2, 700}, {0, 1}}) {
    bench.Want(bench.Add(priority), us);
  }
  bench.Want(running, 1000);
  EXPECT_EQ(bench.Running(), "0");
  bench.End(running);
  EXPECT_EQ(bench.Running(), "3");
}

TEST(Hpf, YieldsOnlyTheSmsThatAreNeeded) {
  PolicyOptions options;
  options.spatial = true;
  options.spatial_extra_sms = 4;
  Bench bench("hpf", options);
  const ClientId low = bench.Add(0);
  const ClientId high = bench.Add(1);
  bench.Of(low).shares_context = true;
  bench.Of(high).shares_context = true;
  bench.Of(high).sms = 8;
  bench.Want(low, 5000);
  bench.Want(high, 80);
  EXPECT_EQ(bench.Running(), "1 0(above 12)");
  EXPECT_EQ(bench.core_.OrderFor(low).sm_bound, 12U);
  bench.Of(low).shares_context = false;  // without a shared context SMs are never shared
  bench.Review(1);
  EXPECT_EQ(bench.Running(), "1");
}

TEST(Hpf, AnOverdueLaunchRunsBeforeAHigherPriority) {
  Bench bench("hpf");
  const ClientId high = bench.Add(5);
  const ClientId low = bench.Add(0);
  bench.core_.Configure(low, {.priority = 0, .latency_bound_ns = 2000 * kUs});
  bench.Want(high, 1'000'000);
  bench.Want(low, 300);
  EXPECT_EQ(bench.Running(), "0");
  EXPECT_EQ(bench.core_.review_ns(), bench.now_ + 1900 * kUs);  // less what stopping costs
  bench.Review(1900);
  EXPECT_EQ(bench.Running(), "1");
  bench.Review(2000);  // its time before others is over
  EXPECT_EQ(bench.Running(), "0");
}

// Beside one of higher priority that always wants the GPU, in ten seconds: nothing, or what it is to have at least.
TEST(Hpf, ALeastShareIsHadWhateverThePriority) {
  for (const uint32_t percent : {0U, 1U, 5U, 20U, 50U}) {
    Bench bench("hpf");
    const ClientId high = bench.Add(5);
    const ClientId low = bench.Add(0), other = bench.Add(1);
    bench.core_.Configure(low, {.priority = 0, .least_share_percent = percent});
    for (const ClientId id : {high, other, low}) {
      bench.Of(id).overhead_ns = 50 * kUs;
      bench.Want(id, 100'000'000);
    }
    for (int i = 0; i < 100'000; ++i) bench.Review(100);
    const double share = static_cast<double>(bench.core_.ViewOf(low).ran_ns) / 1e10;
    EXPECT_NEAR(share, percent / 100.0, 0.15 * percent / 100.0) << percent;
    EXPECT_GE(share, 0.98 * percent / 100.0);
    EXPECT_EQ(bench.core_.ViewOf(other).ran_ns, 0U) << "what has no share of its own waits";
    EXPECT_EQ(bench.core_.WaitBound(low) == kNever, percent == 0);
  }
}

// A bound on the wait and a share: the one that is due first counts.
TEST(Hpf, ALeastShareAndALatencyBound) {
  Bench bench("hpf");
  const ClientId high = bench.Add(5);
  const ClientId low = bench.Add(0);
  bench.core_.Configure(low, {.priority = 0, .latency_bound_ns = 1000 * kUs, .least_share_percent = 2});
  bench.Want(high, 1'000'000);
  bench.Want(low, 1'000'000);
  bench.Review(1000);
  EXPECT_EQ(bench.Running(), "1") << "the latency bound";
  bench.core_.Configure(low, {.priority = 0, .latency_bound_ns = 500'000 * kUs, .least_share_percent = 50});
  bench.Review(1100);
  EXPECT_EQ(bench.Running(), "0");
  bench.Review(1900);
  EXPECT_EQ(bench.Running(), "1") << "2 ms of 4";
}

TEST(Hpf, SaysWhomClientsAreHeldFor) {
  Bench bench("hpf");
  const ClientId low = bench.Add(0);
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(low), HeldFor::kNobody);  // nobody else is there
  const ClientId high = bench.Add(5);
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(low), HeldFor::kAnyone);
  EXPECT_EQ(bench.core_.HoldsFor(high), HeldFor::kNobody);
  const ClientId same = bench.Add(5);
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(high), HeldFor::kEquals);
  EXPECT_EQ(bench.core_.HoldsFor(same), HeldFor::kEquals);
  bench.core_.Configure(same, {.priority = 4});
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(high), HeldFor::kNobody);
  bench.core_.Configure(same, {.priority = 4, .latency_bound_ns = 1});
  bench.Review(1);
  EXPECT_EQ(bench.core_.HoldsFor(high), HeldFor::kAnyone);
}

/// What HpfPolicy::HoldsFor says, by looking through all others.
HeldFor HeldForByOthers(const std::vector<ClientView>& all, size_t self) {
  HeldFor held_for = HeldFor::kNobody;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == self) continue;
    if (all[i].priority > all[self].priority || all[i].latency_bound_ns != 0) return HeldFor::kAnyone;
    if (all[i].priority == all[self].priority) held_for = HeldFor::kEquals;
  }
  return held_for;
}

TEST(Hpf, SaysWhomClientsAreHeldForWhateverTheirNumberAndSettings) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Bench bench("hpf");
    std::vector<ClientView> all(1 + random() % 6);
    std::vector<ClientId> ids;
    for (ClientView& client : all) {
      client.priority = static_cast<int32_t>(random() % 3) - 1;
      client.latency_bound_ns = random() % 8 == 0 ? 1 : 0;
      ids.push_back(bench.Add(client.priority));
      bench.core_.Configure(ids.back(),
                            {.priority = client.priority, .latency_bound_ns = client.latency_bound_ns});
    }
    bench.Review(1);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(bench.core_.HoldsFor(ids[i]), HeldForByOthers(all, i)) << i;
  }
}

TEST(Hpf, PausedClientsDoNotCount) {
  Bench bench("hpf");
  const ClientId high = bench.Add(5);
  const ClientId low = bench.Add(0);
  bench.Want(high, 1000);
  bench.Want(low, 1000);
  bench.core_.Configure(high, {.priority = 5, .paused = true});
  bench.Review(1);
  EXPECT_EQ(bench.Running(), "1");
  EXPECT_TRUE(bench.core_.OrderFor(high).hold);
  EXPECT_FALSE(bench.core_.MayTake(high, low));
}

TEST(Corun, TheFirstTwoRunWithAWorkerAnSmWhereTheyShareAContext) {
  for (const bool mps : {true, false}) {
    Bench bench("corun");
    for (int i = 0; i < 3; ++i) {
      const ClientId id = bench.Add(0);
      bench.Of(id).shares_context = mps;
      bench.Want(id, 1000);
    }
    EXPECT_EQ(bench.Running(), mps ? "0 1" : "0");
    for (const Grant& grant : bench.core_.decision().grants) {
      EXPECT_EQ(grant.workers_per_sm, mps ? 1U : 0U);
      EXPECT_EQ(grant.variant, mps ? Variant::kPreemptible : Variant::kAny);
    }
  }
}

}  // namespace
}  // namespace cupola::sched
