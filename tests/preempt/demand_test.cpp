// How long a program wants the GPU that launches plain kernels and waits for none of them. The test
// is the board: nobody but the program's own agent renews, and nothing here depends on how soon
// that comes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/paths.h"
#include "tests/preempt/demand_checks.h"

namespace cupola::preempt_test {
namespace {

class DemandOn : public testing::TestWithParam<const char*> {};

TEST_P(DemandOn, LastsAsLongAsTheKernel) {
  EXPECT_EQ(LastsAsLongAsTheKernel(CUPOLA_PRELOAD, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Streams, DemandOn,
                         testing::Values("legacy", "blocking", "non-blocking", "many",
                                         "copied", "device-copied", "beside"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::erase(name, '-');
                           return name;
                         });

// No agent runs there, nobody renews.
TEST(Demand, EndsWithItsLeaseWhereTheProcessIsStopped) {
  DemandRun run("non-blocking", kNoLimit);
  ASSERT_EQ(run.wrong, "") << run.program.output();
  kill(run.program.pid(), SIGSTOP);
  EXPECT_TRUE(run.Comes([&] { return !sched::HasDemand(run.slot(), sched::BoardClockNs()); }));
  EXPECT_EQ(sched::DropStaleRequests(run.board.view(), kVictim, sched::BoardClockNs()), 0u);
  kill(run.program.pid(), SIGCONT);
  EXPECT_TRUE(run.Comes([&] {
    return sched::HasDemand(run.slot(), sched::BoardClockNs()) && run.Asks();
  })) << "its kernel still runs";
}

// Without slots in the context, and with them.
TEST(Demand, EndsWhereTheKernelFaulted) {
  for (const char* kind : {"fault", "preempted-fault"}) {
    DemandRun run(kind, kNoLimit);
    ASSERT_EQ(run.wrong, "") << run.program.output();
    EXPECT_TRUE(run.Comes([&] { return !run.Wants() && !run.Asks(); })) << run.program.output();
  }
}

// Work that may wait for what the others do in turn holds them for so long only.
TEST(Demand, EndsAtItsLimit) {
  DemandRun run("non-blocking", "100");
  ASSERT_EQ(run.wrong, "") << run.program.output();
  EXPECT_TRUE(run.Comes([&] { return !run.Wants() && !run.Asks(); })) << run.program.output();
}

TEST(Demand, HasNoLimitWhileItIsHeld) {
  for (const char* gate_every : {"0", "1"}) {
    DemandRun run("non-blocking", "0", /*is_held=*/true, CUPOLA_PRELOAD, kLimit, gate_every);
    ASSERT_EQ(run.wrong, "") << run.program.output();
    EXPECT_TRUE(run.HasLasted()) << run.program.output();
    EXPECT_EQ(run.slot().demand.load(), run.demand) << "it lost its demand";
  }
}

// How often the bursts of a program that keeps the host busy asked while they were waited for, and not at all.
struct Bursts {
  int late = -1, unasked = -1;
};

Bursts RunEager(const char* ask, bool may_be_asked = false) {
  const BoardFile board;
  board.slot().may_take.store(1 << kVictim);
  board.slot().may_be_held.store(may_be_asked ? sched::HeldFor::kAnyone : sched::HeldFor::kNobody);
  board.view().slot(kVictim).state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  Program program({CUPOLA_DEMAND_APP, "eager"}, board, {{"CUPOLA_ASK_AT", ask}, {"CUPOLA_LOG", "info"}});
  EXPECT_TRUE(program.Await("done")) << program.output();
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_EQ(board.view().slot(kVictim).yield_requests.load(), 0U);
  Bursts bursts;
  const std::string said = program.output();
  const size_t end = said.find(" bursts asked while they were waited for, ");
  if (end == std::string::npos) return bursts;
  const size_t begin = said.rfind(' ', end - 1);
  bursts.late = std::atoi(said.c_str() + begin);
  bursts.unasked = std::atoi(said.c_str() + said.find(", ", end) + 2);
  return bursts;
}

/// Runs it until the bursts are as expected: on a busy machine the simulated device, not the host, may be what is slow.
template <typename Expected>
bool ComesAbout(const char* ask, Expected expected) {
  constexpr int kAttempts = 6;
  for (int i = 0; i < kAttempts; ++i) {
    const Bursts bursts = RunEager(ask);
    if (expected(bursts)) return true;
    std::printf("%s: %d late, %d unasked\n", ask, bursts.late, bursts.unasked);
  }
  return false;
}

TEST(Demand, OfABurstThatTheHostIssuesSlowlyComesWhenItPays) {
  // Each way is tried.
  EXPECT_TRUE(ComesAbout("auto", [](const Bursts& bursts) { return bursts.late >= 4 && bursts.unasked >= 4; }));
}

TEST(Demand, ComesWhenTheSettingSays) {
  EXPECT_EQ(RunEager("first").late, -1);
  EXPECT_TRUE(ComesAbout("wait", [](const Bursts& bursts) { return bursts.late > 50; }));
  EXPECT_TRUE(ComesAbout("never", [](const Bursts& bursts) { return bursts.unasked > 30; }));
}

TEST(Demand, OfAProcessThatOthersMayAskComesWithTheFirstLaunch) {
  EXPECT_EQ(RunEager("wait", /*may_be_asked=*/true).late, -1);
}

// Of several streams, with the call that waits for the last of them: not some ms later, when the agent
// finds that all is quiet.
TEST(Demand, EndsWhereItsStreamsAreWaitedForOneByOne) {
  const BoardFile board;
  board.view().header().attention.store(1);
  Program program({CUPOLA_DEMAND_APP, "one-by-one"}, board, {});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  const auto wants = [&] { return (board.slot().demand.load() & 1) != 0; };
  constexpr auto kLonger = std::chrono::milliseconds(5);  // than gaps that are short
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(kLonger);
    program.GoOn();
    ASSERT_TRUE(program.Await("first " + std::to_string(i) + ".")) << program.output();
    std::this_thread::sleep_for(kLonger);
    EXPECT_TRUE(wants()) << "the second stream's kernel runs";
    program.GoOn();
    ASSERT_TRUE(program.Await("synced " + std::to_string(i) + ".")) << program.output();
    EXPECT_FALSE(wants()) << "row " << i;
  }
}

// Of a copy the host has the result when it returns.
TEST(Demand, EndsWithACopyToTheHost) {
  const BoardFile board;
  board.view().header().attention.store(1);
  Program program({CUPOLA_DEMAND_APP, "copies"}, board, {});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  for (int i = 0; i < 9; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than gaps that are short
    program.GoOn();
    ASSERT_TRUE(program.Await("copied " + std::to_string(i) + ".")) << program.output();
    EXPECT_EQ(board.slot().demand.load() & 1, 0u) << "row " << i;
  }
}

// A process that comes back soon keeps the GPU for a moment; equals, who are held in the daemon's name
// and not in its own, are not to wait longer. The quickest of some rows, for a machine that is busy.
TEST(Demand, OfARowEndsSoonWhereOnlyTheDaemonHeeds) {
  const BoardFile board;
  board.view().header().attention.store(1);
  Program program({CUPOLA_DEMAND_APP, "row"}, board, {});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  uint64_t least_ns = UINT64_MAX;
  for (int i = 0; i < 20; ++i) {
    program.GoOn();
    ASSERT_TRUE(program.Await("synced " + std::to_string(i) + ".")) << program.output();
    const uint64_t since_ns = sched::BoardClockNs();
    ASSERT_TRUE(AwaitTrue([&] { return (board.slot().demand.load() & 1) == 0; }));
    least_ns = std::min(least_ns, sched::BoardClockNs() - since_ns);
  }
  EXPECT_LT(least_ns, 5'000'000U);
}

}  // namespace
}  // namespace cupola::preempt_test
