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

}  // namespace
}  // namespace cupola
