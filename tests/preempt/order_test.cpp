// What happens before what, in programs that are stopped and resumed by seed while they run.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preempt/order_checks.h"

namespace cupola::preempt_test {
namespace {

constexpr const char* kStreams[] = {"non-blocking", "blocking", "legacy", "per-thread"};

TEST(Order, OfLaunchesCopiesEventsAndWaitsOnFourStreams) {
  uint64_t stops = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(RandomOrder(CUPOLA_PRELOAD, seed, kLimit, &stops), "");
  }
  EXPECT_GT(stops, 20u);
}

// The 257th launch waits for a slot; the slots that are taken again know where they left off.
TEST(Order, OfMoreLaunchesThanThereAreSlots) {
  uint64_t seed = 0;
  for (const char* stream : kStreams) {
    EXPECT_EQ(HeldAtFirst(CUPOLA_PRELOAD, "many", stream, ++seed), "") << stream;
  }
}

// What the legacy stream waits for through events a copy waits for too.
TEST(Order, OfACopyBehindAnotherStream) {
  uint64_t seed = 0;
  for (const char* through : {"event", "events", "graph"}) {
    for (const char* stream : kStreams) {
      EXPECT_EQ(HeldAtFirst(CUPOLA_PRELOAD, through, stream, ++seed), "") << through << stream;
    }
  }
}

TEST(Order, OfALaunchWhileAnotherThreadWaits) {
  EXPECT_EQ(LaunchBesideAWait(CUPOLA_PRELOAD, std::chrono::milliseconds(15)), "");
}

TEST(Order, OfWhatAnotherThreadPutsOnTheStreamOfALaunch) {
  uint64_t seed = 0;
  for (const char* stream : {"non-blocking", "blocking", "legacy"}) {
    EXPECT_EQ(BetweenLaunchAndGuard(CUPOLA_PRELOAD, stream, ++seed), "") << stream;
  }
}

// The driver reads the environment as it starts. More queues than its own number make every start longer; what
// the program has set stays.
TEST(Queues, AreAsManyAsTheDriverHas) {
  const std::map<std::string, std::string> unset = {{"CUDA_DEVICE_MAX_CONNECTIONS", ""}};
  EXPECT_EQ(Queues(CUPOLA_PRELOAD, unset), "STRICT: 8 queues");
  auto without_tasks = unset;
  without_tasks["CUPOLA_TASKS"] = "off";
  EXPECT_EQ(Queues(CUPOLA_PRELOAD, without_tasks), "STRICT: 8 queues");
  EXPECT_EQ(Queues(CUPOLA_PRELOAD, {{"CUDA_DEVICE_MAX_CONNECTIONS", "16"}}), "STRICT: 16 queues");
}

TEST(Queues, UnderMpsAreAsManyAsAreCountedOn) {
  std::string folder = "/tmp/cupola-mps-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/control").close();
  std::map<std::string, std::string> environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", ""},
                                                    {"CUDA_MPS_PIPE_DIRECTORY", folder}};
  EXPECT_EQ(Queues(CUPOLA_PRELOAD, environment), "STRICT: 8 queues");
  environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "4";
  EXPECT_EQ(Queues(CUPOLA_PRELOAD, environment), "STRICT: 4 queues");
  std::filesystem::remove_all(folder);
}

TEST(Order, OfCopiesWhileStreamsJoin) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const char* stream : kStreams) {
      EXPECT_EQ(JoinsBySeed(CUPOLA_PRELOAD, stream, seed), "") << stream;
    }
  }
}

// Nothing is known of the driver yet when it forks; child and parent take part, each for itself.
TEST(Order, InAChildOfAForkBeforeTheFirstCall) {
  const BoardFile board;
  Program program({CUPOLA_ORDER_APP, "fork", "non-blocking"}, board);
  EXPECT_EQ(AskBySeed(&program, board, /*seed=*/1, kLimit), "");
  const std::string took_part = "600 launches preemptible";
  const size_t first = program.output().find(took_part);
  ASSERT_NE(first, std::string::npos) << program.output();
  EXPECT_NE(program.output().find(took_part, first + 1), std::string::npos) << program.output();
}

}  // namespace
}  // namespace cupola::preempt_test
