// Where one warp or one worker is far ahead of the others: priorities that change a few times in a
// run, which uniformly random schedules hardly come to.
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/unit/passes/preempt_bed.h"

namespace cupola::passes {
namespace {

class PrioritiesTest : public testing::TestWithParam<const char*> {};

TEST_P(PrioritiesTest, OneMayBeFarAhead) {
  auto subject = MakeSubject(std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/passes/kernels/" +
                             GetParam() + ".ptx");
  ASSERT_TRUE(subject) << subject.error().ToString();
  const uint64_t runs = 60;
  for (const uint32_t batch : {1u, 3u}) {
    for (const uint64_t ask : {0u, 150u, 400u}) {
      Course course;
      course.workers = 1 + batch % 2;
      course.batch = batch;
      course.look_after_ns = batch == 1 ? 0 : 2000;
      course.fresh_after_ns = course.look_after_ns;
      if (ask != 0) course.ask_at_step = {ask, 2 * ask};
      const sim::SearchResult result =
          sim::SearchSeeds(MakeScenario(*subject, course, std::make_shared<Account>()), 1, runs,
                           sim::Strategy::kPct);
      EXPECT_FALSE(result.failure) << "batch " << batch << ", asked at step " << ask << ", seed "
                                   << result.failure->seed << "\n"
                                   << result.failure->ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, PrioritiesTest, testing::Values("two_warps", "plain", "shared_tile"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cupola::passes
