// Kernels in which some lanes leave before barriers to which the others come, as variants on the stepped device: its
// warps hold lanes and wait at barriers as a GPU's do.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/passes/leaving_shapes.h"
#include "tests/unit/passes/preempt_bed.h"

namespace cupola::passes {
namespace {

class LeavingTest : public testing::TestWithParam<std::string> {};

TEST_P(LeavingTest, GivesTheSameAsVariants) {
  auto golden = MakeLeavingShape(GetParam());
  ASSERT_TRUE(golden) << golden.error().ToString();
  auto subject = MakeSubject(*std::move(golden));
  ASSERT_TRUE(subject) << subject.error().ToString();
  ASSERT_EQ(subject->facts.sliced_refusal, "");
  EXPECT_EQ(RunSliced(*subject, 1, 3), "");
  const std::string& refusal = subject->facts.preemptible_refusal;
  if (!refusal.empty()) {
    // What is refused for good reason: lanes of a warp, or warps, are to meet without those that left.
    EXPECT_TRUE(refusal == "warp operations after an early return" ||
                refusal == "counted barriers after an early return")
        << refusal;
    return;
  }
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Prng random(seed);
    Course course;
    course.stale_reads = course.find_races = false;
    course.workers = 2;
    if (seed == 2) course.ask_at_step = {random.Below(400), 400 + random.Below(400)};
    sim::RandomChooser chooser(seed);
    const auto failure =
        sim::RunOnce(MakeScenario(*subject, course, std::make_shared<Account>()), &chooser);
    EXPECT_FALSE(failure) << "seed " << seed << ": " << failure->ToString();
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LeavingTest);
INSTANTIATE_TEST_SUITE_P(Shapes, LeavingTest, testing::ValuesIn(LeavingShapes()));

}  // namespace
}  // namespace cupola::passes
