#include "models/remaining.h"

#include <gtest/gtest.h>

namespace cupola::models {
namespace {

TEST(RemainingTime, FallsOnlyWhileItRuns) {
  RemainingTime time(1000, 0);
  EXPECT_EQ(time.remaining_ns(0), 1000u);
  EXPECT_EQ(time.remaining_ns(300), 1000u);
  EXPECT_EQ(time.waited_ns(300), 300u);
  time.Run(300);
  EXPECT_EQ(time.remaining_ns(700), 600u);
  time.Stop(700);
  EXPECT_EQ(time.remaining_ns(5000), 600u);
  EXPECT_EQ(time.ran_ns(5000), 400u);
  EXPECT_EQ(time.waited_ns(5000), 300u + 4300u);
  time.Run(5000);
  time.Run(5100);  // again: nothing
  EXPECT_EQ(time.remaining_ns(5600), 0u);
  EXPECT_EQ(time.expected_ns(), 1000u);
}

TEST(RemainingTime, AnOverrunIsExpectedToGoOn) {
  RemainingTime time(1000, 0);
  time.Run(0);
  EXPECT_EQ(time.remaining_ns(1000), 0u);
  EXPECT_EQ(time.remaining_ns(3000), 1000u);
}

TEST(RemainingTime, ProgressCorrectsAWrongPrediction) {
  RemainingTime slow(1000, 0);  // really takes 4000
  slow.Run(0);
  slow.Progress(25, 100, 1000);
  // (1 - 0.25) * (0.75 * 1000 + 0.25 * 4000)
  EXPECT_EQ(slow.remaining_ns(1000), 1312u);
  slow.Progress(75, 100, 3000);
  // 0.25 * (0.25 * 1000 + 0.75 * 4000): near the true 1000
  EXPECT_EQ(slow.remaining_ns(3000), 812u);
  EXPECT_EQ(slow.remaining_ns(3100), 712u);
  slow.Progress(50, 100, 3200);  // old news
  EXPECT_EQ(slow.remaining_ns(3200), 612u);
  slow.Progress(100, 100, 4000);
  EXPECT_EQ(slow.remaining_ns(4100), 0u);
}

TEST(RemainingTime, ARightPredictionIsNotDisturbedByProgress) {
  RemainingTime time(1000, 0);
  time.Run(0);
  for (uint64_t done = 1; done < 10; ++done) {
    time.Progress(done, 10, done * 100);
    EXPECT_NEAR(static_cast<double>(time.remaining_ns(done * 100)), 1000.0 - 100.0 * done, 1);
  }
}

}  // namespace
}  // namespace cupola::models
