#include "cli/tune_measure.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cupola {
namespace {

/// `batch`: L of the variant, 0 = plain.
TimedLaunch Launch(const char* kernel, uint32_t blocks, uint64_t start, uint64_t ns,
                   uint32_t batch, uint32_t process = 1) {
  return {.kernel = kernel, .grid = {blocks, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 0,
          .start_ns = start, .end_ns = start + ns, .process = process, .batch = batch};
}

/// Launches of 100 ns, one after the other, that take turns.
std::vector<TimedLaunch> InTurns(const std::vector<uint32_t>& turns, uint32_t blocks, size_t count,
                                 uint32_t process = 1) {
  std::vector<TimedLaunch> launches;
  for (size_t i = 0; i < count; ++i) {
    launches.push_back(
        Launch("a", blocks, 1000 + 200 * i, 100, turns[i % turns.size()], process));
  }
  return launches;
}

void Append(const std::vector<TimedLaunch>& more, std::vector<TimedLaunch>* all) {
  all->insert(all->end(), more.begin(), more.end());
}

TEST(ChooseBatch, TheSoonestThatIsClearlyWithinTheBound) {
  EXPECT_EQ(ChooseBatch({{1, 3.0}, {4, 0.43}, {16, -1.3}, {64, -1.4}}, 0.5)->first, 16u);
  EXPECT_EQ(ChooseBatch({{1, 3.0}, {4, 0.25}, {16, -1.3}}, 0.5)->first, 4u);
  EXPECT_EQ(ChooseBatch({{1, 3.0}, {4, 0.43}, {16, 0.3}}, 0.5)->first, 4u);
  EXPECT_EQ(ChooseBatch({{1, 3.0}, {4, 1.4}, {16, 1.2}, {64, 1.3}}, 0.5)->first, 16u);
}

TEST(TuneMeasure, ComparesMediansShapeByShape) {
  const auto costs = CompareForms({
      Launch("a", 10, 0, 100, 0), Launch("a", 10, 0, 900, 0), Launch("a", 10, 0, 100, 0),
      Launch("a", 20, 0, 1000, 0), Launch("b", 10, 0, 50, 0),
      Launch("a", 10, 0, 110, 4), Launch("a", 20, 0, 1000, 4), Launch("a", 30, 0, 5, 4),
      Launch("a", 20, 0, 1500, 1), Launch("c", 10, 0, 100, 4)}, 1);
  ASSERT_EQ(costs.size(), 1u);  // b went out plain, c never did
  ASSERT_EQ(costs.at("a").size(), 2u);
  EXPECT_NEAR(costs.at("a").at(4), 5, 1e-9);
  EXPECT_NEAR(costs.at("a").at(1), 50, 1e-9);
}

TEST(TuneMeasure, ColdLaunchesAreLeftOutWhereThereAreMore) {
  // As they end: the first variant and the first plain one are not the first in the list.
  const auto warm = WithoutCold({Launch("a", 10, 300, 30, 0), Launch("a", 10, 100, 10, 4),
                                 Launch("a", 10, 200, 20, 0), Launch("a", 10, 400, 40, 1),
                                 Launch("a", 20, 500, 50, 0), Launch("a", 10, 600, 60, 1, 2)});
  std::vector<uint64_t> starts;
  for (const TimedLaunch& launch : warm) starts.push_back(launch.start_ns);
  EXPECT_EQ(starts, (std::vector<uint64_t>{300, 400, 500, 600}));
}

TEST(TuneMeasure, ComparesOnlyWhatWasLaunchedOftenEnough) {
  std::vector<TimedLaunch> launches = InTurns({1, 4, 0}, 10, 7);  // once more with L = 1
  EXPECT_EQ(CompareForms(launches, 2).at("a").size(), 2u);
  EXPECT_TRUE(CompareForms(launches, 3).empty());
  launches.push_back(Launch("a", 10, 0, 100, 0));
  EXPECT_EQ(CompareForms(launches, 3).at("a"), (Overheads{{1, 0.0}}));
}

TEST(TuneMeasure, OrdersOfClaimsAreDifferentForms) {
  constexpr uint32_t kInOrder = 4 | profiles::kClaimsInGridOrder;
  const auto costs = CompareForms({Launch("a", 10, 0, 100, 0), Launch("a", 10, 0, 110, 4),
                                   Launch("a", 10, 0, 101, kInOrder)}, 1);
  ASSERT_EQ(costs.at("a").size(), 2u);
  EXPECT_NEAR(costs.at("a").at(4), 10, 1e-9);
  EXPECT_NEAR(costs.at("a").at(kInOrder), 1, 1e-9);
}

TEST(TuneMeasure, ShapesAreToHaveAllTheirTurns) {
  const std::vector<uint32_t> turns = {1, 4, 0};
  std::vector<TimedLaunch> launches = InTurns(turns, 10, 6);
  EXPECT_EQ(ShareWithAllTurns({Launch("a", 1, 0, 100, 0)}, turns, 1), 0);
  launches.push_back(Launch("other", 1, 0, 100, 0));  // has no variant
  EXPECT_EQ(ShareWithAllTurns(launches, turns, 2), 1);
  EXPECT_EQ(ShareWithAllTurns(launches, turns, 3), 0);
  Append(InTurns(turns, 20, 2), &launches);  // never plain with 20 blocks
  EXPECT_EQ(ShareWithAllTurns(launches, turns, 1), 0.75);
  Append(InTurns({0, 1, 4}, 20, 1, 2), &launches);
  EXPECT_EQ(ShareWithAllTurns(launches, turns, 1), 1);
}

TEST(TuneMeasure, AProgramThatLaunchesOnceHasItsTurnsRunByRun) {
  std::vector<uint32_t> turns = {1, 4, 0};
  std::vector<TimedLaunch> launches;
  size_t runs = 0;
  while (runs == 0 || ShareWithAllTurns(launches, {1, 4, 0}, 2) < 1) {
    ASSERT_LT(runs, 6u);
    Append(WithoutCold(InTurns(turns, 10, 1, static_cast<uint32_t>(++runs))), &launches);
    std::rotate(turns.begin(), turns.begin() + 1, turns.end());
  }
  EXPECT_EQ(runs, 6u);
}

TEST(TuneMeasure, WhatAShapeDoesNotDoAtItsTurnIsNotWaitedFor) {
  // Its L is always 1, whoever asks for what.
  std::vector<TimedLaunch> launches = InTurns({1, 1, 0}, 10, 6);
  EXPECT_EQ(ShareWithAllTurns(launches, {1, 4, 0}, 2), 1);
  // A small grid goes out plain always.
  Append(InTurns({0}, 2, 6), &launches);
  EXPECT_EQ(ShareWithAllTurns(launches, {1, 4, 0}, 2), 1);
  // Less than two cycles do not show that.
  Append(InTurns({0}, 3, 4), &launches);
  EXPECT_EQ(ShareWithAllTurns(launches, {1, 4, 0}, 2), 0.75);
}

using Samples = std::vector<profiles::PreemptionSample>;

/// Of the launches of "a"; `usual`: 1000 ns with L = 4.
Samples CostsOf(const std::vector<TimedLaunch>& interrupted,
                const std::vector<Interruption>& interruptions) {
  const std::vector<TimedLaunch> usual = {Launch("a", 10, 0, 1000, 4), Launch("a", 10, 0, 700, 1)};
  auto costs = InterruptionCosts(interrupted, interruptions, usual);
  EXPECT_LE(costs.size(), 1u);
  return costs["a"];
}

Samples Sample(int64_t ns, uint32_t count) { return {{.when = 0, .ns = ns, .count = count}}; }

TEST(TuneMeasure, APreemptionCostsWhatTheLaunchWasNotStopped) {
  // Stopped for 300 ns by two interruptions, and 100 ns longer than that explains.
  EXPECT_EQ(CostsOf({Launch("a", 10, 1000, 1400, 4)}, {{1100, 1100, 1300}, {1500, 1500, 1600}}),
            Sample(50, 2));
  // Faster than usual by more than that cost: the mean of many is not to be too large.
  EXPECT_EQ(CostsOf({Launch("a", 10, 1000, 1280, 4)}, {{1100, 1100, 1300}, {1500, 1500, 1600}}),
            Sample(-10, 2));
}

// Asked at 1100, its last blocks end at 1250 while half of the GPU is idle, on average; stopped
// until 1300; 20 ns to be launched again. It has done 75 ns of its work meanwhile.
TEST(TuneMeasure, ADrainInsideOfTheHoldCostsWhatItLeavesIdle) {
  EXPECT_EQ(CostsOf({Launch("a", 10, 1000, 1000 + 75 + 50 + 20, 4)}, {{1100, 1250, 1300}}),
            Sample(95, 1));
}

TEST(TuneMeasure, LaunchesThatWereNotStoppedByEachInterruptionTellNothing) {
  const std::vector<Interruption> interruptions = {{1100, 1150, 1300}, {9900, 9910, 10'100},
                                                   {20'100, 0, 20'200}};
  EXPECT_EQ(CostsOf({Launch("a", 10, 1000, 1400, 4)}, interruptions).size(), 1u);
  // None: it began under a request; it was let go before it had stopped; it was not interrupted; it
  // ended before the request did; it went out plain, or with an L or of a shape not seen before.
  EXPECT_TRUE(CostsOf({Launch("a", 10, 10'000, 1130, 4), Launch("a", 10, 20'000, 1250, 4),
                       Launch("a", 10, 2000, 1400, 4), Launch("a", 10, 8950, 1010, 4),
                       Launch("a", 10, 1000, 1400, 0), Launch("a", 10, 1000, 1400, 64),
                       Launch("a", 11, 1000, 1400, 4)},
                      interruptions)
                  .empty());
}

}  // namespace
}  // namespace cupola
