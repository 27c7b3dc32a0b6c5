#include "base/prng.h"

#include <gtest/gtest.h>

namespace cupola {
namespace {

// Reference values of SplitMix64 from seed 1234567.
TEST(Prng, MatchesTheReferenceSequence) {
  Prng prng(1234567);
  EXPECT_EQ(prng.Next(), 6457827717110365317ULL);
  EXPECT_EQ(prng.Next(), 3203168211198807973ULL);
}

TEST(Prng, BelowStaysInRangeAndReachesEveryValue) {
  Prng prng(1);
  bool seen[5] = {};
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = prng.Below(5);
    ASSERT_LT(value, 5u);
    seen[value] = true;
  }
  for (bool value : seen) EXPECT_TRUE(value);
}

TEST(Prng, UniformStaysWithinItsBoundsAndReachesAllParts) {
  Prng prng(3);
  int parts[4] = {};
  for (int i = 0; i < 4000; ++i) {
    const double value = prng.Uniform(-2, 6);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 6);
    ++parts[static_cast<int>((value + 2) / 2)];
  }
  for (const int part : parts) EXPECT_NEAR(part, 1000, 150);
}

}  // namespace
}  // namespace cupola
