// Programs whose kernels are stopped and resumed from outside, on the simulated device under the
// strict driver: results, order, exactly once, and nobody hangs. The test plays the arbiter: it
// owns the board and asks in the daemon's name.
#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "profiles/claim_word.h"
#include "tests/paths.h"
#include "tests/preempt/gate_checks.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

const std::vector<std::string> kStreams = {"non-blocking", "blocking", "legacy", "per-thread"};

enum class From { kStart, kReady };

/// Stops the program's kernels, lets it run on, and expects it to end well.
void StopAndResume(const std::vector<std::string>& arguments, From from = From::kStart,
                   const std::map<std::string, std::string>& environment = {}) {
  SCOPED_TRACE(testing::PrintToString(arguments));
  const BoardFile board;
  if (from == From::kStart) board.Ask();
  Program program(App(arguments), board, environment);
  if (from == From::kReady) {
    ASSERT_TRUE(program.Await("ready")) << program.output();
    board.Ask();
    program.GoOn();
  }
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  ASSERT_TRUE(
      AwaitTrue([&] { return board.slot().preemptions.load() != 0 || program.HasEnded(); }));
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  GiveTimeToGoWrong();
  EXPECT_FALSE(program.HasEnded()) << program.Wait() << program.output();
  board.Release();
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_GE(board.slot().preemptions.load(), 1u) << program.output();
  EXPECT_GE(board.slot().resumes.load(), 1u);
}

TEST(Stop, NothingAsked) {
  const BoardFile board;
  Program program(App({"order", "legacy"}), board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(program.output().find("3 launches preemptible, 0 preemptions"), std::string::npos)
      << program.output();
}

// Launches that wait for one another do not each count the time of those before.
TEST(Stop, EachMomentOfTheGpuCountsOnce) {
  const BoardFile board;
  const auto begin = std::chrono::steady_clock::now();
  Program program(App({"in-a-row", "non-blocking"}), board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(board.slot().gpu_ns.load(), 0u);
  EXPECT_LE(board.slot().gpu_ns.load(),
            static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
}

TEST(Stop, OrderOfKernelsCopiesAndEvents) {
  for (const std::string& stream : kStreams) StopAndResume({"order", stream});
}

// L = 1 and kOneWorkerLess of profiles/claim_word.h.
TEST(Stop, WithOneWorkerLessOnEachSm) {
  for (const std::string& stream : kStreams) {
    StopAndResume({"order", stream}, From::kStart, {{"CUPOLA_BATCH", "1073741825"}});
  }
}

// L = 1 and half of the workers.
TEST(Stop, WithSomeOfTheWorkers) {
  const std::string word = std::to_string(1 | profiles::WorkerEighths(4));
  for (const std::string& stream : kStreams) {
    StopAndResume({"order", stream}, From::kStart, {{"CUPOLA_BATCH", word}});
  }
}

TEST(Stop, VariablesOfTheProgram) { StopAndResume({"global", "legacy"}); }

/// Asks and lets go all the time while a program runs, on every kind of stream.
void StopAgainAndAgain(const std::string& gate_every) {
  for (const std::string& stream : kStreams) {
    const BoardFile board;
    Program program(App({"order", stream}), board,
                    {{"CUPOLA_POLL_NS", "0"}, {"CUPOLA_GATE_EVERY", gate_every}});
    while (!program.HasEnded()) {
      board.Ask();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      board.Release();
      std::this_thread::sleep_for(std::chrono::microseconds(700));
    }
    EXPECT_EQ(program.Wait(), 0) << stream << program.output();
  }
}

TEST(Stop, AgainAndAgain) { StopAgainAndAgain("0"); }

class StopInCall : public testing::TestWithParam<const char*> {};

TEST_P(StopInCall, OnEveryKindOfStream) {
  for (const std::string& stream : kStreams) StopAndResume({"call", stream, GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Calls, StopInCall,
                         testing::Values("free", "free-host", "unregister", "copy-to-host",
                                         "copy-to-device", "copy-to-symbol", "copy-async",
                                         "copy-async-pinned", "set-limit", "first-launch",
                                         "stream-destroy", "event-destroy", "event-wait",
                                         "stream-wait", "device-wait", "many-streams",
                                         "many-launches"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::erase(name, '-');
                           return name;
                         });

// What a profile is to know of a kernel the driver tells when it has loaded it.
TEST(Stop, AKernelIsDescribedWhereNothingIsHeld) {
  const std::string folder = testing::TempDir() + "cupola-records-of-stops";
  std::filesystem::create_directories(folder);
  for (const std::string& stream : kStreams) {
    StopAndResume({"call", stream, "first-launch"}, From::kStart,
                  {{"CUPOLA_RECORDS", folder}, {"CUPOLA_TIMING", "events"}, {"CUPOLA_FEATURES", "1"}});
  }
  std::filesystem::remove_all(folder);
}

TEST(Stop, CaptureOnAnotherThread) {
  StopAndResume({"capture", "non-blocking"}, From::kReady);
  StopAndResume({"capture", "blocking"}, From::kReady);
}

TEST(Stop, ThreadsThatLaunchAndFree) {
  const BoardFile board;
  Program program(App({"threads", "legacy"}), board);
  while (!program.HasEnded()) {
    board.Ask();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    board.Release();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

TEST(Stop, ALaunchAndACallThatMeet) {
  const BoardFile board;
  Program program(App({"race", "non-blocking"}), board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// Resumes run on a level of their own, and the program does not see that.
TEST(Stop, NoStreamComesOnTheLevelOfResumes) {
  const BoardFile board;
  Program plain({CUPOLA_LEVELS_APP}, board, {{"LD_PRELOAD", ""}});
  EXPECT_EQ(plain.Wait(), 0) << plain.output();
  Program program({CUPOLA_LEVELS_APP}, board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(program.output().find("10 launches preemptible"), std::string::npos)
      << program.output();
  EXPECT_NE(program.output().find(plain.output()), std::string::npos)
      << program.output() << plain.output();
}

std::string ErrorsOf(const std::string& output) {
  std::string lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) {
    if (line.find(": cuda") != std::string::npos) lines += line + "\n";
  }
  return lines;
}

TEST(Stop, AFaultSurfacesAsTheDriversOwn) {
  const BoardFile board;
  Program plain(App({"fault", "legacy"}), board, {{"LD_PRELOAD", ""}});
  EXPECT_EQ(plain.Wait(), 0) << plain.output();
  Program program(App({"fault", "legacy"}), board, {{"CUPOLA_DRIVER", CUPOLA_SIM_DRIVER}});
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(ErrorsOf(plain.output()), "");
  EXPECT_EQ(ErrorsOf(program.output()), ErrorsOf(plain.output())) << program.output();
}

TEST(Stop, DeviceReset) {
  for (const std::string& stream : kStreams) StopAndResume({"reset", stream});
}

TEST(Stop, Fork) { StopAndResume({"leave", "legacy", "fork"}); }

// Leaving without having waited: no result is promised, but nobody hangs.
TEST(Stop, LeavingWhileStopped) {
  for (const char* how : {"exit", "_exit"}) {
    const BoardFile board;
    board.Ask();
    Program program(App({"leave", "legacy", how}), board);
    ASSERT_TRUE(program.Await("done")) << program.output();
    GiveTimeToGoWrong();
    board.Release();
    EXPECT_EQ(program.Wait(), 3) << how << program.output();
  }
}

// What it said to one request is no answer to the next, which its agent has not seen yet.
TEST(Stop, AskedAnewWhileTheProcessIsStopped) {
  const BoardFile board;
  board.Ask();
  Program program(App({"leave", "legacy", "pause"}), board);
  ASSERT_TRUE(program.Await("done")) << program.output();
  ASSERT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1; }));
  kill(program.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(program.pid(), &status, WUNTRACED), program.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  board.Release();
  board.Ask();
  EXPECT_EQ(board.slot().stopped.load(), 0u);
  kill(program.pid(), SIGCONT);
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1; }));
}

TEST(Stop, KilledWhileStopped) {
  const BoardFile board;
  board.Ask();
  Program program(App({"leave", "legacy", "pause"}), board);
  ASSERT_TRUE(program.Await("done")) << program.output();
  ASSERT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1; }));
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.Wait(), 128 + SIGKILL);
}

// Kernels without a variant wait at a gate, the host does not; the gate opens with the release.
TEST(Gate, HoldsTheStreamNotTheHost) {
  for (const std::string& stream : kStreams) {
    SCOPED_TRACE(stream);
    const BoardFile board;
    Program program(App({"gated", stream}), board,
                    {{"CUPOLA_GATE_EVERY", "4"}, {"CUPOLA_DRIVER", CUPOLA_SIM_DRIVER}});
    ASSERT_TRUE(program.Await("ready")) << program.output();
    board.Ask();
    program.GoOn();
    ASSERT_TRUE(program.Await("kernel launched")) << program.output();
    GiveTimeToGoWrong();
    EXPECT_FALSE(program.HasEnded()) << program.output();
    EXPECT_EQ(program.output().find("done"), std::string::npos) << program.output();
    board.Release();
    EXPECT_EQ(program.Wait(), 0) << program.output();
  }
}

// What has stopped is launched again while the process is held, and starts when it is let go: whoever
// lets it go opens the gate, and no agent is waited for.
TEST(Gate, HoldsResumesBack) {
  for (const std::string& stream : kStreams) {
    SCOPED_TRACE(stream);
    const BoardFile board;
    Program program(App({"paced", stream}), board, {{"CUPOLA_GATE_EVERY", "8"}});
    ASSERT_TRUE(program.Await("ready")) << program.output();
    program.Tell("open 0\nheld 1\n");
    ASSERT_TRUE(program.Await("reached 1")) << program.output();
    board.Ask();
    program.Tell("open 4294967295\n");
    EXPECT_TRUE(
        AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
    GiveTimeToGoWrong();
    EXPECT_EQ(board.slot().stopped.load(), 1u);
    EXPECT_EQ(board.slot().resumes.load(), 0u) << "it runs";
    board.Release();
    program.Tell("end 0\n");
    EXPECT_EQ(program.Wait(), 0) << program.output();
    for (const char* count : {"1 preemptions, 1 resumes", " 1 gates"}) {
      EXPECT_NE(program.output().find(count), std::string::npos) << program.output();
    }
  }
}

// What is launched while the process is held starts when it is let go, and not before: no worker
// comes to take the GPU, run a block and leave.
TEST(Gate, HoldsPreemptibleLaunchesBack) {
  for (const std::string& stream : kStreams) {
    SCOPED_TRACE(stream);
    const BoardFile board;
    board.Ask();
    Program program(App({"order", stream}), board, {{"CUPOLA_GATE_EVERY", "8"}});
    ASSERT_TRUE(program.Await("kernel launched")) << program.output();
    ASSERT_TRUE(
        AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
    GiveTimeToGoWrong();
    EXPECT_FALSE(program.HasEnded()) << program.output();
    board.Release();
    EXPECT_EQ(program.Wait(), 0) << program.output();
    EXPECT_NE(program.output().find("3 launches preemptible, 0 preemptions, 0 resumes"),
              std::string::npos)
        << program.output();
  }
}

// One that began before it was asked stops, the one behind it waits at the gate; and again.
TEST(Gate, AmongStops) { StopAgainAndAgain("8"); }

// The gate opens and closes again while the launch behind it still waits for an earlier one.
TEST(Gate, IsNotPassedBehindAnEarlierLaunch) {
  for (const std::string& stream : kStreams) {
    EXPECT_EQ(BehindAGate(CUPOLA_PRELOAD, stream, kLimit), "") << stream;
  }
}

// A thread that waits in the driver at a gate keeps the agent's calls out, which would open it.
TEST(Gate, OpensForACopyWhereWhoeverAskedHasDied) {
  constexpr std::chrono::milliseconds kHeld(60), kSoon(10'000);
  for (const char* beside : {"plain", "non-blocking", "paced"}) {
    EXPECT_EQ(CopyAtAGate(CUPOLA_PRELOAD, beside, kHeld, kSoon), "") << beside;
  }
}

// Whoever may ask from now on is reckoned with from the next launch on.
TEST(Gate, ComesAsSoonAsSomebodyMayAsk) {
  const BoardFile board;
  Program program(App({"gated", "non-blocking"}), board,
                  {{"CUPOLA_GATE_EVERY", "4"}, {"CUPOLA_DRIVER", CUPOLA_SIM_DRIVER}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  sched::BoardSlot& other = board.view().slot(1);
  other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  other.may_take.store(1);
  board.view().header().decisions.fetch_add(1);
  program.GoOn();
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_EQ(program.output().find(" 0 gates"), std::string::npos) << program.output();
}

// Where processes share a context equals run beside each other.
TEST(Gate, InASharedContextIsForThoseAbove) {
  for (const int32_t priority : {0, 1}) {
    const BoardFile board;
    board.slot().capabilities.store(sched::kSharesContext);
    sched::BoardSlot& other = board.view().slot(1);
    other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    other.priority.store(priority);
    other.may_take.store(1);
    board.view().header().decisions.store(1);
    Program program(App({"gated", "non-blocking"}), board,
                    {{"CUPOLA_GATE_EVERY", "4"}, {"CUPOLA_DRIVER", CUPOLA_SIM_DRIVER}});
    ASSERT_TRUE(program.Await("ready")) << program.output();
    program.GoOn();
    EXPECT_EQ(program.Wait(), 0) << program.output();
    const bool has_none = program.output().find(" 0 gates") != std::string::npos;
    EXPECT_EQ(has_none, priority == 0) << program.output();
  }
}

// A gate comes as often as launches are long: whoever asks does not wait for eight of some
// milliseconds each.
TEST(Gate, LongLaunchesHaveOneEach) {
  const BoardFile board;
  sched::BoardSlot& other = board.view().slot(1);
  other.may_take.store(1);  // it may ask the program to yield
  other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  Program program(App({"long-gated", "non-blocking"}), board, {{"CUPOLA_GATE_EVERY", "8"}});
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(program.output().find(" us between two gates"), std::string::npos) << program.output();
  const size_t at = program.output().find(" gates");
  ASSERT_NE(at, std::string::npos) << program.output();
  const size_t number = program.output().rfind(' ', at - 1) + 1;
  EXPECT_GE(std::stoi(program.output().substr(number)), 18) << program.output();
}

// A process that nobody may ask to yield runs its kernels as they are, once it is known what they
// take; so does one that only equals may ask, where they are short; one that somebody above it may ask
// does not.
TEST(Shapes, NobodyAsksForVariants) {
  struct Case {
    bool may_be_asked;
    int32_t priority;  // of the one who asks
    const char* equals_above_us;
    const char* plain;
  };
  const Case cases[] = {{false, 0, "1000000000", "launches plain: nobody may ask"},
                        {true, 0, "1000000000", "launches plain: short"},
                        {true, 0, "0", nullptr},
                        {true, 1, "1000000000", nullptr}};
  for (const Case& one : cases) {
    const BoardFile board;
    board.view().slot(1).may_take.store(one.may_be_asked ? 1 : 0);
    board.view().slot(1).priority.store(one.priority);
    Program program(App({"repeat", "non-blocking"}), board,
                    {{"CUPOLA_PREEMPT", "auto"},
                     {"CUPOLA_TASKS", "off"},  // which says of its own how many were plain
                     {"CUPOLA_PREEMPT_ABOVE_US", "0"},
                     {"CUPOLA_PREEMPT_EQUALS_ABOVE_US", one.equals_above_us}});
    EXPECT_EQ(program.Wait(), 0) << program.output();
    const bool is_plain = program.output().find("launches plain") != std::string::npos;
    EXPECT_EQ(is_plain, one.plain != nullptr) << program.output();
    EXPECT_TRUE(!is_plain || program.output().find(one.plain) != std::string::npos)
        << program.output();
    EXPECT_EQ(program.output().find("preemption: 0 launches preemptible"), std::string::npos)
        << program.output();
  }
}

// The arbiter goes by what a launch is expected to take, here by those before it, where others of
// the same priority or above are to be weighed against it.
TEST(Shapes, TellWhatTheyAreExpectedToTake) {
  for (const bool may_be_asked : {false, true}) {
    const BoardFile board;
    board.view().slot(1).may_take.store(may_be_asked ? 1 : 0);
    Program program(App({"repeat", "non-blocking"}), board);
    EXPECT_EQ(program.Wait(), 0) << program.output();
    EXPECT_EQ(board.slot().remaining_ns.load() != 0, may_be_asked);
  }
}

// Blocks that may wait for each other all run at once, where all of them fit: as many as of the kernel
// as it is, not as of its variant.
TEST(Shapes, AGridThatFitsStaysPlain) {
  const BoardFile board;
  Program program(App({"meet", "non-blocking"}), board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(program.output().find("preemption: 0 launches preemptible"), std::string::npos)
      << program.output();
}

// Blocks of one shape say little of those of another: a shape that was not seen is made preemptible,
// one that was seen to be short is not.
TEST(Shapes, AreJudgedByThemselves) {
  const BoardFile board;
  board.view().slot(1).may_take.store(1);  // somebody may ask
  Program program(App({"shapes", "non-blocking"}), board,
                  {{"CUPOLA_PREEMPT", "auto"}, {"CUPOLA_PREEMPT_ABOVE_US", "1000000000"}});
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_NE(program.output().find("2 launches preemptible"), std::string::npos)
      << program.output();
  EXPECT_NE(program.output().find("2 launches plain: short"), std::string::npos)
      << program.output();
}

// Whoever asked died, and no daemon is there to see it: the agent drops the request.
TEST(Stop, WhoeverAskedHasDied) {
  const BoardFile board;
  sched::SetRequest(board.view(), 0, 5, runtime::kAllSms);  // slot 5 belongs to nobody
  Program program(App({"order", "legacy"}), board);
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

}  // namespace
}  // namespace cupola::preempt_test
