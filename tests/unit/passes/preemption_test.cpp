// Preemptible variants on the stepped device: un-preempted and preempted anywhere, resumed on other
// SMs, with launches before and behind on the stream; results bit-identical to the plain kernel's.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/passes/preempt_bed.h"

namespace cupola::passes {
namespace {

Course CourseFor(const Subject& subject) {
  Course course;
  if (subject.facts.may_wait_on_blocks) {
    course.flags = 1;
    course.batch = 1;
  }
  return course;
}

// Asks so many times, at most `apart` steps apart, of all or of the first SM.
void AskByChance(Prng& random, int times, uint64_t apart, Course* course) {
  uint64_t at = 0;
  for (int i = 0; i < times; ++i) {
    course->ask_at_step.push_back(at += random.Below(apart));
    course->bounds.push_back(random.Below(2) == 0 ? 0xFFFF : 1);
  }
}

class PreemptionTest : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    auto subject = MakeSubject(GetParam(), 3);
    ASSERT_TRUE(subject) << subject.error().ToString();
    subject_ = std::move(*subject);
    ASSERT_EQ(subject_.facts.preemptible_refusal, "");
  }

  // Runs a course with one seed; the account of the run.
  Account RunSeed(const Course& course, uint64_t seed) {
    auto account = std::make_shared<Account>();
    sim::RandomChooser chooser(seed);
    const auto failure = sim::RunOnce(MakeScenario(subject_, course, account), &chooser);
    EXPECT_FALSE(failure) << "seed " << seed << ", asked at step "
                          << (course.ask_at_step.empty() ? 0 : course.ask_at_step[0]) << "\n"
                          << failure->ToString();
    return *account;
  }

  // Runs a course for each seed from 1 to `seeds`, which `shape` makes of CourseFor's. Some of their
  // launches are stopped and resumed.
  template <typename Shape>
  void RunSeeds(uint64_t seeds, Shape shape) {
    uint32_t resumes = 0;
    for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
      Prng random(seed);
      Course course = CourseFor(subject_);
      course.granularity = seed % 4 == 0 ? sim::Granularity::kThread : sim::Granularity::kWarp;
      shape(random, seed, course);
      resumes += RunSeed(course, seed).resumes;
    }
    EXPECT_GT(resumes, 0u);
  }

  Subject subject_;
};

TEST_P(PreemptionTest, RunsToTheSameResultsUnasked) {
  for (const sim::Granularity granularity : {sim::Granularity::kWarp, sim::Granularity::kThread}) {
    Course course = CourseFor(subject_);
    course.granularity = granularity;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      const Account account = RunSeed(course, seed);
      EXPECT_EQ(account.resumes, 0u);
      EXPECT_EQ(account.yields, 0u);
    }
  }
}

// Asked at every nth step of a run, of the plainest kernel's at every one: in every state
// between begin and end.
TEST_P(PreemptionTest, StopsAndGoesOnAnywhere) {
  Course course = CourseFor(subject_);
  const uint64_t steps = RunSeed(course, 1).steps;
  uint32_t resumes = 0, returned = 0;
  const bool every = GetParam().stem() == "plain" || GetParam().stem() == "look_back";
  const uint64_t stride = every ? 1 : std::max<uint64_t>(steps / 20, 1);
  for (uint64_t at = 0; at < steps && !HasFailure(); at += stride) {
    course.ask_at_step = {at};
    const Account account = RunSeed(course, 1);
    resumes += account.resumes;
    returned += account.returned;
  }
  EXPECT_GT(resumes, 4u) << "of runs of " << steps << " steps";
  if (course.flags == 0) {
    EXPECT_GT(returned, 0u);
  }
}

// Several asks, bounds, shapes, launches on the stream; all by seed.
TEST_P(PreemptionTest, StopsAndGoesOnAgainAndAgain) {
  const uint64_t steps = RunSeed(CourseFor(subject_), 1).steps;
  RunSeeds(8, [&](Prng& random, uint64_t, Course& course) {
    course.workers = 1 + static_cast<uint32_t>(random.Below(3));
    course.resume_workers = 1 + static_cast<uint32_t>(random.Below(4));
    if (course.flags == 0) course.batch = 1 + static_cast<uint32_t>(random.Below(3));
    course.stride = 1 + static_cast<uint32_t>(random.Below(4));
    course.single_blocks = static_cast<uint32_t>(random.Below(8));
    // What a look-back kernel waits for is there already in a second launch.
    if (course.flags == 0) course.launches = 1 + static_cast<uint32_t>(random.Below(3));
    course.poll_period_ns = random.Below(2) == 0 ? 25 : 750;
    course.sm_count = 2 + static_cast<uint32_t>(random.Below(2));
    course.look_after_ns = random.Below(2) == 0 ? 0 : 2000;
    course.fresh_after_ns = course.look_after_ns / 2;
    AskByChance(random, 4, steps / 2, &course);
  });
}

// One worker of several takes no blocks.
TEST_P(PreemptionTest, WatchesFromOneWorker) {
  if (CourseFor(subject_).flags != 0) return;  // such launches have no watcher
  RunSeeds(12, [&](Prng& random, uint64_t seed, Course& course) {
    course.has_watcher = true;
    course.workers = 2 + static_cast<uint32_t>(random.Below(2));
    course.resume_workers = 1 + static_cast<uint32_t>(random.Below(3));
    course.batch = 1 + static_cast<uint32_t>(random.Below(3));
    course.launches = 1 + static_cast<uint32_t>(random.Below(2));
    course.sm_count = 2 + static_cast<uint32_t>(random.Below(2));
    AskByChance(random, static_cast<int>(seed % 4), 500, &course);
  });
}

// Whoever asked is through before all have left, or before some have heard of it.
TEST_P(PreemptionTest, RequestsAreWithdrawnAtAnyTime) {
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) {
    Prng random(seed);
    Course course = CourseFor(subject_);
    course.has_watcher = course.flags == 0 && seed % 3 != 0;
    course.workers = 2 + static_cast<uint32_t>(random.Below(3));
    course.resume_workers = 1 + static_cast<uint32_t>(random.Below(3));
    if (course.flags == 0) course.batch = 1 + static_cast<uint32_t>(random.Below(3));
    course.poll_period_ns = 25;
    AskByChance(random, 3, 400, &course);
    course.withdraws_after = random.Below(80);
    (void)RunSeed(course, seed);
  }
}

// Ranges of a claim each, which count as long, one behind the other.
TEST_P(PreemptionTest, SteadyClaims) {
  RunSeeds(16, [&](Prng& random, uint64_t seed, Course& course) {
    course.workers = 1 + static_cast<uint32_t>(random.Below(3));
    course.resume_workers = 1 + static_cast<uint32_t>(random.Below(3));
    course.batch = course.flags == 0 ? 1 + static_cast<uint32_t>(random.Below(3)) : 1;
    course.stride = 1;
    course.look_after_ns = 20000;
    course.has_watcher = course.flags == 0 && seed % 3 == 0;
    // Within a period nothing else is decided.
    course.poll_period_ns = 50u << random.Below(8);
    course.launches = course.flags == 0 ? 1 + static_cast<uint32_t>(random.Below(2)) : 1;
    AskByChance(random, 3, 400, &course);
  });
}

// Who runs them looks for a stop behind each, though no poll is due: of these requests most find blocks
// that are not begun, 3 of 8 where a block takes 50 steps.
TEST_P(PreemptionTest, SteadyClaimsAreLeft) {
  if (CourseFor(subject_).flags != 0) return;  // such launches have none
  constexpr uint32_t kSeeds = 8;
  uint32_t yields = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    Course course;
    course.workers = 2;
    course.batch = 1;
    course.look_after_ns = course.poll_period_ns = 20000;
    course.has_watcher = true;
    course.ask_at_step = {50 * seed};
    yields += RunSeed(course, seed).yields;
  }
  EXPECT_GE(yields, 2u);
}

// Ranges of blocks, as long ones as there are.
TEST_P(PreemptionTest, RangesOfBlocks) {
  RunSeeds(16, [&](Prng& random, uint64_t seed, Course& course) {
    course.workers = 1 + static_cast<uint32_t>(random.Below(2));
    if (course.flags == 0) course.batch = 4 + static_cast<uint32_t>(random.Below(12));
    course.stride = 1 + static_cast<uint32_t>(random.Below(3));
    course.look_after_ns = 500u << random.Below(8);
    course.fresh_after_ns = course.look_after_ns / 4;
    if (seed % 2 == 0) course.ask_at_step = {random.Below(seed % 4 == 0 ? 1000 : 200)};
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, PreemptionTest, testing::ValuesIn(PassKernelFiles()),
                         [](const auto& test) { return test.param.stem().string(); });

}  // namespace
}  // namespace cupola::passes
