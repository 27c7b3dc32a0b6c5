// What a stop usually takes, where some of the measurements are far too long.
#include "intercept/launch/usual_time.h"

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

TEST(UsualTime, BelievesTheShorterAtOnce) {
  UsualTime time;
  EXPECT_EQ(time.ns(), 0u);
  time.Learn(5'000'000);
  EXPECT_EQ(time.ns(), 5'000'000u);
  time.Learn(70'000);
  EXPECT_EQ(time.ns(), 70'000u);
  time.Learn(18'000'000);  // it waited for its time slice
  EXPECT_LE(time.ns(), 80'000u);
}

TEST(UsualTime, FollowsWhatBecomesLonger) {
  UsualTime time;
  time.Learn(1'000);
  for (int i = 0; i < 60; ++i) time.Learn(2'000'000);
  EXPECT_EQ(time.ns(), 2'000'000u);
}

TEST(UsualTime, DoubtsOnlyWhatIsVeryLong) {
  UsualTime time;
  time.Learn(20'000'000);
  for (int i = 0; i < 100; ++i) time.Doubt();
  EXPECT_LE(time.ns(), 1'000'000u);
  EXPECT_GT(time.ns(), 900'000u);
}

}  // namespace
}  // namespace cupola::intercept
