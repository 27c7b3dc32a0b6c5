// Settings of preemption that depend on whether stopping a process takes a change of context.
#include "intercept/launch/preemption_settings.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

PreemptionSettings Read(bool shares_context, const char* piece_us) {
  preemption_settings = {};
  piece_us == nullptr ? unsetenv("CUPOLA_PIECE_US") : setenv("CUPOLA_PIECE_US", piece_us, 1);
  EXPECT_TRUE(ReadPreemptionSettings());
  if (shares_context) AdaptToSharedContext();
  return preemption_settings;
}

TEST(PreemptionSettings, WithoutChangesOfContextPiecesAreLongerAndGapsShorter) {
  EXPECT_EQ(Read(false, nullptr).piece_ns, 250'000u);
  EXPECT_EQ(Read(true, nullptr).piece_ns, 350'000u);
  EXPECT_EQ(Read(false, nullptr).short_gap_ns, 60'000u);
  EXPECT_EQ(Read(true, nullptr).short_gap_ns, 20'000u);
}

TEST(PreemptionSettings, ALengthOfPiecesThatIsSetHoldsEitherWay) {
  for (const bool shares_context : {false, true}) {
    EXPECT_EQ(Read(shares_context, "200").piece_ns, 200'000u);
    EXPECT_EQ(Read(shares_context, "0").piece_ns, 0u);
  }
}

}  // namespace
}  // namespace cupola::intercept
