// The golden kernels of the simulated device as variants: what the interpreter knows of PTX, inside
// a worker's loop and in slices.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/prng.h"
#include "tests/unit/passes/preempt_bed.h"

namespace cupola::passes {
namespace {

// What these show depends on when or where they run, or they end in a fault.
bool HasNoOneResult(const sim::GoldenKernel& kernel) {
  return kernel.expected.find("fault:") != std::string::npos || kernel.name == "timers.ptx";
}

class GoldenKernelsTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenKernelsTest, GiveTheSameAsVariants) {
  auto golden = sim::ReadGoldenKernel(GetParam());
  ASSERT_TRUE(golden) << golden.error().ToString();
  if (HasNoOneResult(*golden)) GTEST_SKIP() << "has no one result";
  auto subject = MakeSubject(GetParam());
  ASSERT_TRUE(subject) << subject.error().ToString();
  if (subject->facts.sliced_refusal.empty()) {
    EXPECT_EQ(RunSliced(*subject, 1, 3), "");
  }
  if (!subject->facts.preemptible_refusal.empty()) {
    GTEST_SKIP() << "refused: " << subject->facts.preemptible_refusal;
  }
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Prng random(seed);
    Course course;
    course.flags = subject->facts.may_wait_on_blocks ? 1 : 0;
    course.workers = 3;
    for (uint64_t at = 0; at < 300; at += 1 + random.Below(100)) course.ask_at_step.push_back(at);
    sim::RandomChooser chooser(seed);
    auto scenario = MakeScenario(*subject, course, std::make_shared<Account>());
    scenario.races_are_failures = false;  // some are about races
    const auto failure = sim::RunOnce(scenario, &chooser);
    EXPECT_FALSE(failure) << "seed " << seed << ": " << failure->ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKernelsTest, testing::ValuesIn(sim::GoldenKernelFiles()),
                         [](const auto& test) { return test.param.stem().string(); });

}  // namespace
}  // namespace cupola::passes
