#include "intercept/tasks/task_worth.h"

#include <gtest/gtest.h>

namespace cupola::intercept::tasks {
namespace {

constexpr uint64_t kNow = 1'000'000, kLong = 200'000, kShort = 5'000;

bool PaysAt(TaskWorth& worth, uint64_t now) {
  return worth.Pays([now] { return now; }, [] {});
}

void TellLong(TaskWorth& worth, uint64_t now, uint32_t streams = 1, uint64_t ns = kLong) {
  for (uint32_t i = 0; i < TaskWorth::kConvincing; ++i) {
    worth.Tell(now, ns, ns, streams, /*spreads=*/false);
  }
}

TEST(TaskWorth, LongTimesAreBelievedOnlyInARow) {
  TaskWorth worth;
  for (uint32_t i = 0; i < 2 * TaskWorth::kConvincing; ++i) {
    const bool is_short = i % TaskWorth::kConvincing == TaskWorth::kConvincing - 1;
    worth.Tell(kNow, is_short ? kShort : kLong, is_short ? kShort : kLong, 1, false);
    EXPECT_TRUE(PaysAt(worth, kNow));
  }
}

TEST(TaskWorth, QuietForLongerEachTime) {
  TaskWorth worth;
  uint64_t now = kNow;
  for (const uint64_t times : {1, 4, 16, 20, 20}) {
    const uint64_t quiet = times * TaskWorth::kFirstQuietNs;
    TellLong(worth, now);
    EXPECT_FALSE(PaysAt(worth, now + quiet - 1));
    EXPECT_TRUE(PaysAt(worth, now + quiet));
    now += quiet;
  }
  worth.Tell(now, kShort, kShort, 1, false);
  TellLong(worth, now);
  EXPECT_TRUE(PaysAt(worth, now + TaskWorth::kFirstQuietNs));
}

TEST(TaskWorth, InOneStreamTasksAreToBeNoSlowerThanBatches) {
  TaskWorth worth;
  worth.SetBatched(1'400);
  EXPECT_EQ(worth.LimitNs(1, true), 1'400u);
  EXPECT_EQ(worth.LimitNs(2, true), 2 * TaskWorth::kPlainCallNs) << "batches are of one stream";
  TellLong(worth, kNow, 1, 1'500);
  EXPECT_FALSE(PaysAt(worth, kNow));
  worth.SetBatched(0);
  EXPECT_EQ(worth.LimitNs(1, true), TaskWorth::kPlainCallNs);
}

TEST(TaskWorth, TheHostBehindItsLaunchesIsSlowerThanManyStreams) {
  TaskWorth worth;
  TellLong(worth, kNow, kLong / TaskWorth::kPlainCallNs + 1);
  EXPECT_TRUE(PaysAt(worth, kNow));
  TellLong(worth, kNow, kLong / TaskWorth::kPlainCallNs - 1);
  EXPECT_FALSE(PaysAt(worth, kNow));
}

TEST(TaskWorth, BlocksThatShareAnSmMustBeShorter) {
  const TaskWorth worth;
  EXPECT_EQ(worth.LimitNs(1, false), TaskWorth::kAloneNs);
  EXPECT_EQ(worth.LimitNs(1, true), TaskWorth::kPlainCallNs);
  EXPECT_EQ(worth.LimitNs(32, false), worth.LimitNs(32, true));
}

TEST(TaskWorth, WhatIsUncertainSaysNothing) {
  TaskWorth worth;
  TellLong(worth, kNow);
  ASSERT_TRUE(PaysAt(worth, kNow + TaskWorth::kFirstQuietNs));
  for (uint32_t i = 0; i < 2 * TaskWorth::kConvincing; ++i) {
    worth.Tell(kNow, kShort, UINT64_MAX, 1, false);
    EXPECT_TRUE(PaysAt(worth, kNow));
  }
  for (uint32_t i = 0; i < TaskWorth::kConvincing; ++i) {
    worth.Tell(kNow, kShort, UINT64_MAX, 1, false);  // neither for nor against
    worth.Tell(kNow, kLong, UINT64_MAX, 1, false);
  }
  EXPECT_FALSE(PaysAt(worth, kNow + 2 * TaskWorth::kFirstQuietNs - 1));
}

TEST(TaskWorth, OnTrialUntilItIsKnown) {
  TaskWorth worth;
  const uint32_t first = worth.Trial();
  EXPECT_NE(first, 0u);
  worth.Tell(kNow, kShort, UINT64_MAX, 1, false);
  EXPECT_EQ(worth.Trial(), first);
  worth.Tell(kNow, kShort, kShort, 1, false);
  EXPECT_EQ(worth.Trial(), 0u);
  TellLong(worth, kNow);
  EXPECT_FALSE(PaysAt(worth, kNow));
  EXPECT_EQ(worth.Trial(), 0u);
  ASSERT_TRUE(PaysAt(worth, kNow + TaskWorth::kFirstQuietNs));
  EXPECT_NE(worth.Trial(), 0u);
  EXPECT_NE(worth.Trial(), first);
}

// A trial finds one stream's tasks short, and all together are not: not at the same interval for
// ever.
TEST(TaskWorth, QuietIsLongerBehindATrialThatFindsThemShort) {
  TaskWorth worth;
  worth.Convict(kNow);
  ASSERT_TRUE(PaysAt(worth, kNow + TaskWorth::kFirstQuietNs));
  worth.EndTrial();
  worth.Convict(2 * kNow);
  EXPECT_FALSE(PaysAt(worth, 2 * kNow + TaskWorth::kLonger * TaskWorth::kFirstQuietNs - 1));
  ASSERT_TRUE(PaysAt(worth, 2 * kNow + TaskWorth::kLonger * TaskWorth::kFirstQuietNs));
  worth.Acquit();
  worth.Convict(3 * kNow);
  EXPECT_TRUE(PaysAt(worth, 3 * kNow + TaskWorth::kFirstQuietNs));
}

// What is to be done before the next task is done once, before anybody is told.
TEST(TaskWorth, TheEndOfQuietIsPrepared) {
  TaskWorth worth;
  int prepared = 0;
  const auto pays_at = [&](uint64_t now) {
    return worth.Pays([now] { return now; },
                      [&] {
                        EXPECT_TRUE(worth.IsQuiet());
                        ++prepared;
                      });
  };
  EXPECT_TRUE(pays_at(kNow));
  EXPECT_FALSE(worth.IsQuiet());
  worth.Convict(kNow);
  EXPECT_TRUE(worth.IsQuiet());
  EXPECT_FALSE(pays_at(kNow));
  EXPECT_EQ(prepared, 0);
  EXPECT_TRUE(pays_at(kNow + TaskWorth::kFirstQuietNs));
  EXPECT_TRUE(pays_at(kNow + TaskWorth::kFirstQuietNs));
  EXPECT_FALSE(worth.IsQuiet());
  EXPECT_EQ(prepared, 1);
}

TEST(TaskWorth, TrialsMayBeLeftOut) {
  TaskWorth worth;
  worth.SkipTrials();
  worth.SetFirstQuiet(7);
  EXPECT_EQ(worth.Trial(), 0u);
  TellLong(worth, kNow);
  EXPECT_FALSE(PaysAt(worth, kNow + 6));
  EXPECT_TRUE(PaysAt(worth, kNow + 7));
  EXPECT_EQ(worth.Trial(), 0u);
}

TEST(TaskWorth, TheOperatorHasTheLastWord) {
  TaskWorth any, few;
  any.SetLimit(0);
  EXPECT_EQ(any.Trial(), 0u);
  few.SetLimit(kShort - 1);
  TellLong(any, kNow);
  TellLong(few, kNow, 1000, kShort);
  EXPECT_TRUE(PaysAt(any, kNow));
  EXPECT_FALSE(PaysAt(few, kNow));
}

}  // namespace
}  // namespace cupola::intercept::tasks
