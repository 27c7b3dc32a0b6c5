// Programs that let themselves go on, on the simulated device under the strict driver: no wait of Cupola's own
// is for what only the program can bring about.
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"
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

// On a machine with more to do than processors each physical launch that is made beside those that were asked to
// leave may be asked as well, before the process can say that it must not be: once all were, none was left.
TEST(Waiting, ManyThatAreAskedBySeed) {
  constexpr uint64_t kMany = 8;
  std::future<std::string> ends[kMany];
  for (uint64_t seed = 1; seed <= kMany; ++seed) {
    ends[seed - 1] = std::async(std::launch::async, [seed] {
      return PollsBySeed(CUPOLA_PRELOAD, kStreams[seed % kStreams.size()], "attributes", seed, kSoon);
    });
  }
  for (uint64_t seed = 1; seed <= kMany; ++seed) EXPECT_EQ(ends[seed - 1].get(), "") << seed;
}

}  // namespace
}  // namespace cupola::preempt_test
