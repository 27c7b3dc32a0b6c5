#include "intercept/batches/batch_row.h"

#include <gtest/gtest.h>

namespace cupola::intercept::batches {
namespace {

// `count` launches, each `ns` after the one before; how many of them are held.
uint32_t Launch(BatchRow& row, uint64_t* now, uint32_t count, uint64_t ns = 500) {
  uint32_t held = 0;
  for (uint32_t i = 0; i < count; ++i) {
    *now += ns;
    held += row.Holds(*now) ? 1 : 0;
  }
  return held;
}

TEST(BatchRow, AnUnforeseenRowIsHeldOnceItIsLong) {
  BatchRow row;
  uint64_t now = 1'000'000;
  EXPECT_EQ(Launch(row, &now, BatchRow::kUnforeseen), 0u);
  EXPECT_EQ(Launch(row, &now, 10), 10u);
}

TEST(BatchRow, OneBehindALongOneIsHeldFromItsStart) {
  BatchRow row;
  uint64_t now = 1'000'000;
  Launch(row, &now, kLeastBatch);
  row.End();
  row.End();  // two calls between rows
  EXPECT_EQ(Launch(row, &now, 3), 3u);
  row.End();
  EXPECT_EQ(Launch(row, &now, 3), 0u) << "the row before had three";
}

TEST(BatchRow, APauseEndsARow) {
  BatchRow row;
  uint64_t now = 1'000'000;
  EXPECT_EQ(Launch(row, &now, 100, BatchRow::kGapNs + 1), 0u);
}

TEST(BatchRow, WhoPausedWithLaunchesHeldIsHeldLate) {
  BatchRow row;
  uint64_t now = 1'000'000;
  Launch(row, &now, 40);
  row.StartAnew();
  EXPECT_EQ(Launch(row, &now, BatchRow::kUnforeseen), 0u);
}

TEST(BatchRow, BatchesGrow) {
  BatchRow row;
  EXPECT_EQ(row.Wanted(), 8u);
  EXPECT_TRUE(row.IsNew());
  row.AddSubmitted(8);
  EXPECT_EQ(row.Wanted(), 16u);
  row.AddSubmitted(16);
  EXPECT_EQ(row.Wanted(), kMostHeld);
  row.End();
  EXPECT_EQ(row.Wanted(), 8u);
}

constexpr uint64_t kFast = BatchWorth::kSampleLaunches * 4'000;
constexpr uint64_t kSlow = BatchWorth::kSampleLaunches * (BatchWorth::kHostBoundNs + 1);
constexpr uint64_t kPlainWindow = BatchWorth::kWindowLaunches * 4'000ull;

bool Begins(BatchWorth& worth, uint32_t samples = BatchWorth::kSamples) {
  bool begins = false;
  for (uint32_t i = 0; i < samples; ++i) begins = worth.AddSample(kFast);
  return begins;
}

TEST(BatchWorth, BeginsBehindFastSamplesInARow) {
  BatchWorth worth;
  EXPECT_FALSE(Begins(worth, BatchWorth::kSamples - 1));
  EXPECT_FALSE(worth.AddSample(kSlow));
  EXPECT_FALSE(Begins(worth, BatchWorth::kSamples - 1));
  EXPECT_TRUE(worth.AddSample(kFast));
}

TEST(BatchWorth, EndsWhereItIsNoFaster) {
  BatchWorth worth;
  ASSERT_TRUE(Begins(worth));
  EXPECT_TRUE(worth.JudgeWindow(kPlainWindow / 2, BatchWorth::kWindowLaunches, 0));
  EXPECT_TRUE(worth.JudgeWindow(kPlainWindow, BatchWorth::kWindowLaunches, 0)) << "one may be by chance";
  EXPECT_FALSE(worth.JudgeWindow(kPlainWindow, BatchWorth::kWindowLaunches, 0));
  worth.Skip();  // as Rest in batches.cpp does: the pause is the first one, and no longer
  EXPECT_FALSE(Begins(worth, BatchWorth::kFirstSkip + BatchWorth::kSamples - 1));
  EXPECT_TRUE(worth.AddSample(kFast));
}

TEST(BatchWorth, EndsWhereFewAreBatchedOrTheProgramPauses) {
  for (const auto& [batched, late] : {std::pair{100u, 0u}, std::pair{1'000u, 50u}}) {
    BatchWorth worth;
    ASSERT_TRUE(Begins(worth));
    EXPECT_TRUE(worth.JudgeWindow(kPlainWindow / 4, batched, late));
    EXPECT_FALSE(worth.JudgeWindow(kPlainWindow / 4, batched, late));
  }
}

TEST(BatchWorth, EachVainTryIsFollowedByALongerPause) {
  BatchWorth worth;
  uint32_t last = 0;
  for (int i = 0; i < 6; ++i) {
    worth.Skip();
    uint32_t samples = 0;
    while (!worth.AddSample(kFast)) ++samples;
    EXPECT_TRUE(samples > last || samples >= BatchWorth::kMostSkip) << i;
    EXPECT_LE(samples, BatchWorth::kMostSkip + BatchWorth::kSamples);
    last = samples;
  }
  // Where they have paid for long it was no vain try.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(worth.JudgeWindow(kPlainWindow / 2, 1'000, 0));
  worth.Skip();
  EXPECT_TRUE(Begins(worth, BatchWorth::kFirstSkip + BatchWorth::kSamples));
}

}  // namespace
}  // namespace cupola::intercept::batches
