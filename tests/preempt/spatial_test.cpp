// Kernels that leave some SMs and go on with the others, and what a process tells the board of its
// own launches.
#include <string>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preempt/spatial_checks.h"

namespace cupola::preempt_test {
namespace {

constexpr int kTries = 20;  // at something that an agent may be too late for

TEST(Spatial, TheOtherSmsDoTheWork) { EXPECT_EQ(StandingRequest(CUPOLA_PRELOAD), ""); }

TEST(Spatial, WhoLeftComesBack) { EXPECT_EQ(AskedAndLetGo(CUPOLA_PRELOAD), ""); }

TEST(Spatial, WhoLeftComesBackBesideThoseResumedBefore) {
  EXPECT_EQ(AskedAfterAStop(CUPOLA_PRELOAD), "");
}

TEST(Spatial, WhoLeavesOneSmAfterTheOtherComesBackBesideTheRest) {
  EXPECT_EQ(LeftOneAfterTheOther(CUPOLA_PRELOAD, runtime::kAskedPhysicalLaunches), "");
}

TEST(Spatial, WhoLeavesWaitsWhereNoQueueIsFree) {
  for (uint32_t resumes = 1; resumes < runtime::kAskedPhysicalLaunches; ++resumes) {
    EXPECT_EQ(LeftOneAfterTheOther(CUPOLA_PRELOAD, resumes), "") << resumes;
  }
}

// Of the hardware queues they take more from the program's streams.
TEST(Spatial, TheStreamsForResumesCount) {
  const SpatialBoardFile board;
  board.Ask();
  Program program(App({"call", "legacy", "many-streams"}), board, {{"CUPOLA_SIM_MPS", "1"}});
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  GiveTimeToGoWrong();
  EXPECT_FALSE(program.HasEnded()) << program.Wait() << program.output();
  board.Release();
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

TEST(Spatial, ASecondRequesterWidensTheBound) { EXPECT_EQ(WidenedRequest(CUPOLA_PRELOAD), ""); }

TEST(Spatial, ASecondRequesterTakesAllForATime) { EXPECT_EQ(SecondRequester(CUPOLA_PRELOAD), ""); }

TEST(Spatial, SmallLaunchesGoOnElsewhere) { EXPECT_EQ(InTime(&SmallLaunches, CUPOLA_PRELOAD), ""); }

// The control.
TEST(Spatial, NothingIsLeftUnasked) { EXPECT_EQ(NothingAsked(CUPOLA_PRELOAD), ""); }

// The SMs that a program wanted at last, which are those that it asked another for.
uint32_t LastWanted(const char* scenario, bool shares) {
  const BoardFile board;
  sched::BoardSlot& other = board.view().slot(1);
  other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  other.capabilities.store(sched::kCanPreempt | (shares ? uint32_t{sched::kSharesContext} : 0u));
  board.slot().may_take.store(2);
  board.view().header().spatial.store(1);
  Program program(App({scenario, "non-blocking"}), board,
                  {{"CUPOLA_SIM_MPS", shares ? "1" : "0"}});
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_EQ(other.yield_requests.load(), 0u);
  EXPECT_EQ(other.yield_sm_bound.load(), board.slot().sms_wanted.load());
  return board.slot().sms_wanted.load();
}

// A program's small launches ask for few SMs where the context is shared, for all where not.
TEST(Demand, TellsTheSmsThatItNeeds) {
  struct Case {
    const char* scenario;  // "race": 8 blocks of 32 threads a launch; "order": 6000
    bool shares;
    uint32_t sms;
  };
  for (const Case& one : {Case{"race", true, 1}, Case{"race", false, runtime::kAllSms},
                          Case{"order", true, runtime::kAllSms}}) {
    SCOPED_TRACE(testing::Message() << one.scenario << one.shares);
    // A burst that the agent ends as a launch comes begins anew, for all SMs: that may be the last.
    uint32_t wanted = 0;
    for (int tries = 0; tries < kTries && wanted != one.sms; ++tries) {
      wanted = LastWanted(one.scenario, one.shares);
    }
    EXPECT_EQ(wanted, one.sms);
  }
}

// An agent that sleeps for longer than the lease is woken, and renews it.
TEST(Demand, IsKeptFromTheFirstLaunchOn) {
  bool woken = false;
  for (int tries = 0; tries < kTries && !woken; ++tries) {
    const BoardFile board;
    board.view().header().attention.store(1);
    Program program(App({"where", "non-blocking"}), board);
    ASSERT_TRUE(program.Await("ready")) << program.output();
    sched::WakeAgent(board.slot());  // to sleep again, for as long as it ever does
    GiveTimeToGoWrong();
    const uint32_t before = board.slot().wake.load();
    program.GoOn();
    ASSERT_TRUE(program.Await("kernel launched")) << program.output();
    woken = board.slot().wake.load() != before;
    ASSERT_EQ(program.Wait(), 0) << program.output();
  }
  EXPECT_TRUE(woken);
}

// What was measured of stops and resumes is published.
TEST(Demand, TellsWhatStoppingCosts) {
  SpatialRun run(CUPOLA_PRELOAD);
  sched::BoardSlot& slot = run.board.slot();
  EXPECT_EQ(slot.overhead_ns.load(), 0u);
  run.LaunchHeld();
  run.board.Ask();
  run.Open(0b1111);
  ASSERT_TRUE(run.AwaitStopped());
  run.board.Release();
  EXPECT_EQ(run.End(), "");
  EXPECT_GT(slot.overhead_ns.load(), 1'000u);
  EXPECT_LT(slot.overhead_ns.load(), 10'000'000'000u);
}

}  // namespace
}  // namespace cupola::preempt_test
