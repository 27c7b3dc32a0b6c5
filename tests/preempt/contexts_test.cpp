// Programs that make and end streams, captures and contexts, on the simulated device under the
// strict driver: what has ended counts no more, and what there is counts.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"
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

/// A program whose kernel is stopped, on the GPU of that slot of the board, and let go when it has
/// said `until`: its output.
std::string StopAndLetGo(const std::vector<std::string>& scenario, uint32_t slot = 0,
                         const std::map<std::string, std::string>& environment = {},
                         const std::string& until = "") {
  const BoardFile board;
  std::vector<std::string> arguments = {CUPOLA_CONTEXTS_APP};
  arguments.insert(arguments.end(), scenario.begin(), scenario.end());
  Program program(arguments, board, environment);
  sched::BoardSlot& asked = board.view().slot(slot);
  asked.gate.store(1);
  asked.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  EXPECT_TRUE(program.Await("ready")) << program.output();
  sched::SetRequest(board.view(), slot, sched::kDaemonBit, runtime::kAllSms);
  program.GoOn();
  EXPECT_TRUE(program.Await("kernel launched")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return asked.stopped.load() == 1 || program.HasEnded(); }));
  EXPECT_TRUE(program.Await(until)) << program.output();
  for (int look = 0; look < 2; ++look) {
    asked.launches.store(UINT64_MAX);
    EXPECT_TRUE(AwaitTrue([&] {
      return asked.launches.load() != UINT64_MAX || program.HasEnded();
    })) << "its agent does not look";
  }
  GiveTimeToGoWrong();
  EXPECT_FALSE(program.HasEnded()) << program.output();
  sched::ClearRequest(board.view(), slot, sched::kDaemonBit);
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_GE(asked.resumes.load(), 1u) << program.output();
  return program.output();
}

// A thread's default stream takes a hardware queue as others do: one of 40 would share that of a
// guard.
TEST(Contexts, DefaultStreamsOfThreadsCount) {
  const auto run = [](const char* count) {
    return StopAndLetGo({"threads", count}, /*slot=*/0, /*environment=*/{}, "all threads launch");
  };
  EXPECT_EQ(run("40").find(" 0 waits"), std::string::npos) << "nobody waited for room";
  EXPECT_NE(run("20").find(" 0 waits"), std::string::npos) << "there was room";
}

TEST(Contexts, DefaultStreamsEndWithTheirThread) {
  std::string output;
  EXPECT_EQ(GuardedIn("threads-in-turn", 40, &output), 1) << output;
}

// A wait that lasts looks at counters on a stream of Cupola's, which takes the last hardware queue; when the program
// makes another stream, that has it.
TEST(Contexts, AStreamOfTheProgramGoesBeforeOneOfOurs) {
  constexpr int kRounds = 3;
  std::string output;
  EXPECT_EQ(GuardedIn("after-a-long-wait", kRounds, &output,
                      {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"}, {"CUPOLA_WAIT_LIMIT_MS", "2000"}}),
            2 * kRounds)
      << output;
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

// What a call waits for, and what it puts behind a guard, is of its stream's context, whichever is
// current.
TEST(Contexts, CallsFromAnotherContext) {
  StopAndLetGo({"copy-from-another"});
  EXPECT_EQ(StopAndLetGo({"set-from-another"}).find(" 0 waits"), std::string::npos);
  StopAndLetGo({"copy-between"});
}

// A copy of the first GPU's waits within the driver for the second GPU's kernel, and nobody gets into
// its context meanwhile: that kernel goes on when it is let go, and with it all.
TEST(Contexts, AStopOnOneGpuDoesNotHoldTheOthersAgent) {
  StopAndLetGo(
      {"two-gpus"}, /*slot=*/1,
      {{"CUPOLA_SIM_DEVICES", "2"}, {"CUPOLA_BOARD_SLOT", "0,1"}, {"STRICT_HOLDS_CONTEXT", "1"}},
      "a copy is under way");
}

}  // namespace
}  // namespace cupola::preempt_test
