// How long a program wants the GPU that launches plain kernels and waits for none of them: while
// they run, lease after lease, and no longer. The test is the board: nobody but the program's own
// agent renews, and nothing here depends on how soon that comes.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

constexpr uint32_t kVictim = 1;
constexpr const char* kNoLimit = "3600000";
constexpr uint64_t kLeases = 5, kLeaseNs = 20'000'000;

/// A program that may ask the process of slot 1, with its kernel launched.
struct DemandRun {
  BoardFile board;
  Program program;
  uint32_t demand = 0;    ///< as the launch left it
  uint64_t until_ns = 0;  ///< its lease then

  DemandRun(const std::string& kind, const std::string& limit_ms, bool is_held = false)
      : board(), program(Prepare(kind), board, {{"CUPOLA_DEMAND_LIMIT_MS", limit_ms}}) {
    if (!program.Await("ready")) ADD_FAILURE() << program.output();
    EXPECT_TRUE(Comes([&] { return !Wants(); })) << "it waited for its first kernel";
    if (is_held) board.Ask();
    program.GoOn();
    EXPECT_TRUE(Comes([&] { return Wants(); }));
    demand = slot().demand.load();
    until_ns = slot().demand_until_ns.load();
    if (!program.Await("kernel launched")) ADD_FAILURE() << program.output();
  }
  sched::BoardSlot& slot() const { return board.slot(); }
  bool Wants() const { return (slot().demand.load() & 1) != 0; }
  bool Asks() const { return (board.view().slot(kVictim).yield_requests.load() & 1) != 0; }
  template <typename Condition>
  bool Comes(Condition condition) {
    (void)AwaitTrue([&] { return condition() || program.HasEnded(); });
    return condition() && !program.HasEnded();
  }

 private:
  std::vector<std::string> Prepare(const std::string& kind) const {
    board.slot().may_take.store(1 << kVictim);
    board.view().slot(kVictim).state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    return {CUPOLA_DEMAND_APP, kind};
  }
};

class DemandOn : public testing::TestWithParam<const char*> {};

TEST_P(DemandOn, LastsAsLongAsTheKernel) {
  DemandRun run(GetParam(), kNoLimit);
  EXPECT_TRUE(run.Comes([&] {
    return run.slot().demand.load() != run.demand ||
           run.slot().demand_until_ns.load() >= run.until_ns + kLeases * kLeaseNs;
  })) << run.program.output();
  EXPECT_EQ(run.slot().demand.load(), run.demand) << "it lost its demand";
  EXPECT_TRUE(run.Asks());
  run.program.GoOn();
  EXPECT_TRUE(run.Comes([&] { return !run.Wants() && !run.Asks(); })) << run.program.output();
  run.program.GoOn();
  EXPECT_EQ(run.program.Wait(), 0) << run.program.output();
}

INSTANTIATE_TEST_SUITE_P(Streams, DemandOn,
                         testing::Values("legacy", "blocking", "non-blocking", "many"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::erase(name, '-');
                           return name;
                         });

// No agent runs there, nobody renews.
TEST(Demand, EndsWithItsLeaseWhereTheProcessIsStopped) {
  DemandRun run("non-blocking", kNoLimit);
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
    EXPECT_TRUE(run.Comes([&] { return !run.Wants() && !run.Asks(); })) << run.program.output();
  }
}

// Work that may wait for what the others do in turn holds them for so long only.
TEST(Demand, EndsAtItsLimit) {
  DemandRun run("non-blocking", "100");
  EXPECT_TRUE(run.Comes([&] { return !run.Wants() && !run.Asks(); })) << run.program.output();
}

TEST(Demand, HasNoLimitWhileItIsHeld) {
  DemandRun run("non-blocking", "0", /*is_held=*/true);
  EXPECT_TRUE(run.Comes([&] {
    return run.slot().demand.load() != run.demand ||
           run.slot().demand_until_ns.load() >= run.until_ns + kLeases * kLeaseNs;
  })) << run.program.output();
  EXPECT_EQ(run.slot().demand.load(), run.demand) << "it lost its demand";
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
