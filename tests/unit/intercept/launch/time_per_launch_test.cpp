#include "intercept/launch/time_per_launch.h"

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

TEST(TimePerLaunch, TheMeanOfLate) {
  TimePerLaunch time;
  EXPECT_EQ(time.ns(), 0u);
  time.Note(1'000, 9'000, 4);
  EXPECT_EQ(time.ns(), 2'000u);
  time.Note(20'000, 26'000, 1);
  EXPECT_EQ(time.ns(), 3'000u);
}

// The agent ends a burst by the time of its look, and the program has begun another one since.
TEST(TimePerLaunch, AnEndBeforeTheBeginSaysNothing) {
  TimePerLaunch time;
  time.Note(10'000, 9'999, 3);
  EXPECT_EQ(time.ns(), 0u);
  time.Note(10'000, 14'000, 2);
  time.Note(20'000, 19'000, 1);
  EXPECT_EQ(time.ns(), 2'000u);
}

}  // namespace
}  // namespace cupola::intercept
