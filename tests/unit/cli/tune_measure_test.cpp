#include "cli/tune_measure.h"

#include <gtest/gtest.h>

namespace cupola {
namespace {

TimedLaunch Launch(const char* kernel, uint32_t blocks, uint64_t start, uint64_t ns,
                   bool preemptible) {
  return {.kernel = kernel, .grid = {blocks, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 0,
          .start_ns = start, .end_ns = start + ns, .preemptible = preemptible};
}

TEST(TuneMeasure, ComparesMediansShapeByShape) {
  const std::vector<TimedLaunch> plain = {
      Launch("a", 10, 0, 100, false), Launch("a", 10, 0, 900, false),
      Launch("a", 10, 0, 100, false), Launch("a", 20, 0, 1000, false),
      Launch("b", 10, 0, 50, false)};
  const std::vector<TimedLaunch> variant = {
      Launch("a", 10, 0, 110, true), Launch("a", 20, 0, 1000, true), Launch("a", 30, 0, 5, true),
      Launch("b", 10, 0, 100, false)};
  const auto costs = CompareForms(plain, variant);
  ASSERT_EQ(costs.size(), 1u);  // b went out plain
  EXPECT_NEAR(costs.at("a").overhead_percent, 5, 1e-9);
  EXPECT_EQ(costs.at("a").shapes, 2u);
}

TEST(TuneMeasure, TurnsAreFairOnlyWhereEachShapeHasBoth) {
  std::vector<TimedLaunch> launches;
  for (int i = 0; i < 4; ++i) launches.push_back(Launch("a", 10, 0, 100, i % 2 == 1));
  launches.push_back(Launch("other", 1, 0, 100, false));  // has no variant
  EXPECT_TRUE(BothFormsSeen(launches));
  launches.push_back(Launch("a", 20, 0, 100, true));
  EXPECT_FALSE(BothFormsSeen(launches));
  EXPECT_FALSE(BothFormsSeen({Launch("a", 10, 0, 100, false)}));
  // Both forms of one run may be given as either list.
  launches.pop_back();
  EXPECT_NEAR(CompareForms(launches, launches).at("a").overhead_percent, 0, 1e-9);
}

TEST(TuneMeasure, APreemptionCostsWhatIsNotHeld) {
  const std::vector<TimedLaunch> usual = {Launch("a", 10, 0, 1000, true)};
  const std::vector<Interruption> interruptions = {{1100, 1300}, {1500, 1600}, {9900, 10'100}};
  // Held for 300 ns by two interruptions, and 100 ns longer than that explains.
  const auto costs =
      InterruptionCosts({Launch("a", 10, 1000, 1400, true)}, interruptions, usual);
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs.at("a"), std::vector<uint64_t>{50});
  // It began under a request: held from its own beginning.
  const auto late = InterruptionCosts({Launch("a", 10, 10'000, 1130, true)}, interruptions, usual);
  EXPECT_EQ(late.at("a"), std::vector<uint64_t>{30});
  // None: untouched; ended before the request did; went out plain; of a shape not seen before.
  EXPECT_TRUE(InterruptionCosts({Launch("a", 10, 2000, 1400, true),
                                 Launch("a", 10, 8950, 1010, true),
                                 Launch("a", 10, 1000, 1400, false),
                                 Launch("a", 11, 1000, 1400, true)},
                                interruptions, usual)
                  .empty());
}

}  // namespace
}  // namespace cupola
