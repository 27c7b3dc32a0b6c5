// What a wait that nobody ends takes of a processor. By the thread's processor time: a busy machine only lowers it.
#include "intercept/process/patient_wait.h"

#include <gtest/gtest.h>

#include <ctime>

namespace cupola::intercept {
namespace {

uint64_t ProcessorNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

struct Used {
  uint64_t processor_ns = 0, pauses = 0;
};

Used WaitFor(uint64_t ns, bool is_held) {
  const uint64_t before_ns = ProcessorNs(), begun_ns = NowNs();
  Used used;
  for (PatientWait wait; NowNs() - begun_ns < ns; ++used.pauses) wait.Pause(is_held);
  used.processor_ns = ProcessorNs() - before_ns;
  return used;
}

class PatientWaitTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartFastClock(); }
};

TEST_F(PatientWaitTest, ALongWaitTakesLittleOfAProcessor) {
  const Used used = WaitFor(1'000'000'000, /*is_held=*/false);
  EXPECT_LT(used.processor_ns, 100'000'000U);
  EXPECT_GT(used.pauses, 100U);  // it looks again and again
}

TEST_F(PatientWaitTest, AHeldOneTakesNextToNothing) {
  const Used used = WaitFor(1'000'000'000, /*is_held=*/true);
  EXPECT_LT(used.processor_ns, 20'000'000U);
  EXPECT_LT(used.pauses, 2'000U);
}

TEST_F(PatientWaitTest, AShortWaitIsSpentWithoutASleep) {
  // Sleeps would take 50 us each. Of several tries one is not held up by the machine.
  uint64_t shortest_ns = UINT64_MAX;
  for (int i = 0; i < 200; ++i) {
    const uint64_t begun_ns = NowNs();
    PatientWait wait;
    for (int pause = 0; pause < 8; ++pause) wait.Pause();
    shortest_ns = std::min(shortest_ns, NowNs() - begun_ns);
  }
  EXPECT_LT(shortest_ns, 50'000U);
}

}  // namespace
}  // namespace cupola::intercept
