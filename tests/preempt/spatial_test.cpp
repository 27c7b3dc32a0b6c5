// Kernels that leave some SMs and go on with the others, and what a process tells the board of its
// own launches.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/preempt/spatial_checks.h"

namespace cupola::preempt_test {
namespace {

TEST(Spatial, TheOtherSmsDoTheWork) { EXPECT_EQ(StandingRequest(CUPOLA_PRELOAD), ""); }

TEST(Spatial, WhoLeftComesBack) { EXPECT_EQ(InTime(&AskedAndLetGo, CUPOLA_PRELOAD), ""); }

TEST(Spatial, ASecondRequesterWidensTheBound) {
  EXPECT_EQ(InTime(&WidenedRequest, CUPOLA_PRELOAD), "");
}

TEST(Spatial, ASecondRequesterTakesAllForATime) {
  EXPECT_EQ(InTime(&SecondRequester, CUPOLA_PRELOAD), "");
}

TEST(Spatial, SmallLaunchesGoOnElsewhere) { EXPECT_EQ(InTime(&SmallLaunches, CUPOLA_PRELOAD), ""); }

// The control: without a request the SMs below run their part.
TEST(Spatial, NothingAsked) {
  SpatialRun run(CUPOLA_PRELOAD);
  run.Launch();
  EXPECT_EQ(run.End(), "");
  EXPECT_GT(run.BlocksBelow(2), kSpatialBlocks / 8);
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
    const BoardFile board;
    sched::BoardSlot& other = board.view().slot(1);
    other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    const uint32_t capabilities =
        sched::kCanPreempt | (one.shares ? uint32_t{sched::kSharesContext} : 0u);
    other.capabilities.store(capabilities);
    board.slot().capabilities.store(capabilities);
    board.slot().may_take.store(2);
    board.view().header().spatial.store(1);
    Program program(App({one.scenario, "non-blocking"}), board);
    EXPECT_EQ(program.Wait(), 0) << program.output();
    EXPECT_EQ(board.slot().sms_wanted.load(), one.sms);
    EXPECT_EQ(other.yield_sm_bound.load(), one.sms);  // as it was last asked
    EXPECT_EQ(other.yield_requests.load(), 0u);
  }
}

// A kernel that is longer than the lease keeps the demand, whatever its process did before.
TEST(Demand, IsKeptFromTheFirstLaunchOn) {
  uint64_t lapse_ns = UINT64_MAX;
  for (int tries = 0; tries < 5 && lapse_ns > 40'000'000; ++tries) {
    const BoardFile board;
    board.view().header().attention.store(1);
    Program program(App({"where", "non-blocking"}), board);
    ASSERT_TRUE(program.Await("ready")) << program.output();
    sched::WakeAgent(board.slot());  // to sleep again, for as long as it ever does
    GiveTimeToGoWrong();
    program.GoOn();
    lapse_ns = 0;
    while (!program.HasEnded()) {
      const uint64_t until = board.slot().demand_until_ns.load(), now = sched::BoardClockNs();
      const bool wants = (board.slot().demand.load() & 1) != 0;
      if (wants && now > until) lapse_ns = std::max(lapse_ns, now - until);
    }
    ASSERT_EQ(program.Wait(), 0) << program.output();
  }
  EXPECT_LE(lapse_ns, 40'000'000u);
}

// What was measured of stops and resumes is published.
TEST(Demand, TellsWhatStoppingCosts) {
  const BoardFile board;
  Program program(App({"where", "non-blocking"}), board, {{"CUPOLA_POLL_NS", "0"}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  EXPECT_EQ(board.slot().overhead_ns.load(), 0u);
  program.GoOn();
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  board.Ask();
  ASSERT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  board.Release();
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_GT(board.slot().overhead_ns.load(), 1'000u);
  EXPECT_LT(board.slot().overhead_ns.load(), 10'000'000'000u);
}

}  // namespace
}  // namespace cupola::preempt_test
