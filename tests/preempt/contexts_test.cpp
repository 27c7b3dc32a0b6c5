// Programs that make and end streams, captures and contexts, on the simulated device under the strict
// driver: what has ended counts no more, and what there is counts.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

/// Runs the program to its end. How many of its launches were guarded; -1: it failed.
int GuardedIn(const std::string& scenario, int rounds, std::string* output,
              const std::map<std::string, std::string>& environment = {}) {
  const BoardFile board;
  Program program({CUPOLA_CONTEXTS_APP, scenario, std::to_string(rounds)}, board, environment);
  const int code = program.Wait();
  *output = program.output();
  const size_t at = output->find(" launches preemptible");
  if (code != 0 || at == std::string::npos) return -1;
  return std::stoi(output->substr(output->rfind(' ', at - 1) + 1));
}

// Four streams a context, of 32 that have hardware queues of their own.
TEST(Contexts, StreamsEndWithTheirContext) {
  constexpr int kRounds = 12;
  std::string output;
  EXPECT_EQ(GuardedIn("resets", kRounds, &output), kRounds + 1) << output;
  EXPECT_EQ(GuardedIn("contexts", kRounds, &output), kRounds + 1) << output;
}

// Nothing is prepared while a capture is open.
TEST(Contexts, CapturesEndWithTheirContext) {
  std::string output;
  EXPECT_EQ(GuardedIn("captures", 1, &output), 1) << output;
}

/// A program that has as many threads behind a stopped kernel is let go: its output.
std::string StopBeforeThreads(int count) {
  const BoardFile board;
  Program program({CUPOLA_CONTEXTS_APP, "threads", std::to_string(count)}, board);
  EXPECT_TRUE(program.Await("ready")) << program.output();
  board.Ask();
  program.GoOn();
  EXPECT_TRUE(program.Await("kernel launched")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  GiveTimeToGoWrong();
  EXPECT_FALSE(program.HasEnded()) << program.output();
  board.Release();
  EXPECT_EQ(program.Wait(), 0) << program.output();
  return program.output();
}

// A thread's default stream takes a hardware queue as others do: one of 40 would share that of a guard.
TEST(Contexts, DefaultStreamsOfThreadsCount) {
  EXPECT_EQ(StopBeforeThreads(40).find(" 0 waits"), std::string::npos) << "nobody waited for room";
  EXPECT_NE(StopBeforeThreads(20).find(" 0 waits"), std::string::npos) << "there was room";
}

TEST(Contexts, DefaultStreamsEndWithTheirThread) {
  std::string output;
  EXPECT_EQ(GuardedIn("threads-in-turn", 40, &output), 1) << output;
}

// More contexts than a process has places for, one after the other.
TEST(Contexts, PlacesServeAgain) {
  constexpr int kRounds = 70;
  std::string output;
  EXPECT_EQ(GuardedIn("resets", kRounds, &output), kRounds + 1) << output;
  EXPECT_EQ(GuardedIn("contexts", kRounds, &output), kRounds + 1) << output;
}

// A release that is not the last ends nothing, as often as it comes.
TEST(Contexts, GoOnAfterARelease) {
  constexpr int kRounds = 70;
  std::string output;
  EXPECT_EQ(GuardedIn("releases", kRounds, &output), 2 * kRounds + 1) << output;
}

// Who launches past everything is not said to be under control.
TEST(Contexts, TooManyAtOnceCannotBeStopped) {
  for (const int count : {60, 70}) {
    const BoardFile board;
    Program program({CUPOLA_CONTEXTS_APP, "at-once", std::to_string(count)}, board,
                    {{"CUPOLA_GATE_EVERY", "8"}});
    EXPECT_TRUE(program.Await("ready")) << program.output();
    const uint32_t abilities =
        board.slot().capabilities.load() & (sched::kCanPreempt | sched::kCanGate);
    EXPECT_EQ(abilities, count == 60 ? uint32_t{sched::kCanPreempt | sched::kCanGate} : 0u);
    program.GoOn();
    EXPECT_EQ(program.Wait(), 0) << program.output();
  }
}

}  // namespace
}  // namespace cupola::preempt_test
