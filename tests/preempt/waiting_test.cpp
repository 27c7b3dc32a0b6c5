// Programs that let themselves go on, on the simulated device under the strict driver: no wait of Cupola's own
// is for what only the program can bring about.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/preempt/waiting_checks.h"

namespace cupola::preempt_test {
namespace {

const std::vector<std::string> kStreams = {"non-blocking", "blocking", "legacy", "per-thread"};
constexpr auto kSoon = std::chrono::seconds(20);

// Without the net: what is behind the word is not waited for.
TEST(Waiting, AStreamThatTheProgramHolds) {
  for (const std::string& stream : kStreams) {
    for (const char* call : {"attributes", "copy", "stream", "limit"}) {
      EXPECT_EQ(GoesOn(CUPOLA_PRELOAD, {"held", stream, call}, "0", kSoon), "") << stream << " " << call;
    }
  }
}

// The net alone: nobody knows that the kernel waits.
TEST(Waiting, AKernelThatWaitsForTheProgram) {
  for (const std::string& stream : kStreams) {
    for (const char* call : {"attributes", "copy", "stream", "limit"}) {
      EXPECT_EQ(GoesOn(CUPOLA_PRELOAD, {"polls", stream, call}, "20", kSoon), "") << stream << " " << call;
    }
  }
}

// Two streams of the program, one for resumes and two that there are anyway take all hardware queues.
TEST(Waiting, WhereTheCountersCannotBeRead) {
  EXPECT_EQ(GoesOn(CUPOLA_PRELOAD, {"polls", "non-blocking", "attributes"}, "20", kSoon,
                   {{"CUDA_DEVICE_MAX_CONNECTIONS", "5"}}),
            "");
}

TEST(Waiting, LaunchesThatFillAStreamBesideIt) {
  EXPECT_EQ(GoesOn(CUPOLA_PRELOAD, {"polls", "non-blocking", "launches"}, "20", kSoon), "");
}

TEST(Waiting, AKernelThatWaitsAndIsAskedBySeed) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string& stream = kStreams[seed % kStreams.size()];
    EXPECT_EQ(PollsBySeed(CUPOLA_PRELOAD, stream, seed % 3 == 0 ? "stream" : "attributes", seed, kSoon), "")
        << seed;
  }
}

}  // namespace
}  // namespace cupola::preempt_test
