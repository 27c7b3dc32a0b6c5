// Kernels that the passes make no preemptible variant of, and that go out in slices where others may
// ask their program to yield. The first block holds the first slice, so that what is asked meanwhile
// is asked in time.
#include <string>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

constexpr uint32_t kBlocks = 2000;
/// Sixteen rounds of what the simulated device holds: four SMs of 8 blocks.
constexpr uint32_t kSlice = 16 * 32;

struct SlicedRun {
  BoardFile board;
  Program program;

  enum class Others { kNone, kMayTake, kDaemonMayHold };

  explicit SlicedRun(Others others, uint32_t blocks = kBlocks,
                     std::map<std::string, std::string> more = {})
      : board(), program(Prepare(others, blocks), board, Environment(std::move(more))) {
    if (!program.Await("ready")) ADD_FAILURE() << program.output();
    // Its agent has seen who may ask when it has looked twice.
    for (int look = 0; look < 2; ++look) {
      board.slot().launches.store(UINT64_MAX);
      EXPECT_TRUE(AwaitTrue([&] { return board.slot().launches.load() != UINT64_MAX; }));
    }
  }
  void Tell(const std::string& command) { program.Tell(command + "\n"); }
  void Launch() {
    Tell("go 0");
    if (!program.Await("kernel launched")) ADD_FAILURE() << program.output();
  }
  void AwaitBegun(uint32_t blocks) {
    Tell("begun " + std::to_string(blocks));
    EXPECT_TRUE(program.Await("reached " + std::to_string(blocks) + "\n")) << program.output();
  }
  void ExpectBegun(uint32_t blocks) {
    Tell("count 0");
    EXPECT_TRUE(program.Await("count ")) << program.output();
    EXPECT_TRUE(program.Await("count " + std::to_string(blocks) + "\n")) << program.output();
  }
  /// It ends well; what it said.
  std::string End() {
    Tell("open 0\nend 0");
    EXPECT_EQ(program.Wait(), 0) << program.output();
    return program.output();
  }

 private:
  std::vector<std::string> Prepare(Others others, uint32_t blocks) const {
    board.view().slot(1).state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    if (others == Others::kMayTake) board.view().slot(1).may_take.store(1);
    if (others == Others::kDaemonMayHold) board.slot().may_be_held.store(sched::HeldFor::kAnyone);
    return {CUPOLA_SLICED_APP, std::to_string(blocks)};
  }
  static std::map<std::string, std::string> Environment(std::map<std::string, std::string> more) {
    more.emplace("CUPOLA_PREEMPT", "auto");
    more.emplace("CUPOLA_GATE_EVERY", "8");
    more.emplace("CUPOLA_DRIVER", CUPOLA_SIM_DRIVER);  // gates are not guards
    return more;
  }
};

bool WentInSlices(const std::string& output) {
  return output.find("1 launches sliced for want of") != std::string::npos;
}

TEST(Sliced, OneSliceAtATimeWhereOthersMayAsk) {
  for (const auto others : {SlicedRun::Others::kMayTake, SlicedRun::Others::kDaemonMayHold}) {
    SlicedRun run(others);
    run.Launch();
    run.AwaitBegun(kSlice);
    run.board.Ask();
    run.Tell("open 0");
    GiveTimeToGoWrong();
    run.ExpectBegun(kSlice);  // the second slice is held at its gate
    run.board.Release();
    run.AwaitBegun(kBlocks);
    const std::string output = run.End();
    EXPECT_TRUE(WentInSlices(output)) << output;
    EXPECT_NE(output.find("2000 blocks ran once"), std::string::npos) << output;
  }
}

TEST(Sliced, PlainWhereNobodyMayAsk) {
  SlicedRun run(SlicedRun::Others::kNone);
  run.Launch();
  run.AwaitBegun(kBlocks);  // block 0 still holds
  const std::string output = run.End();
  EXPECT_FALSE(WentInSlices(output)) << output;
  EXPECT_NE(output.find("1 launches plain: nobody may ask"), std::string::npos) << output;
}

TEST(Sliced, PlainWhereOneSliceHoldsItAll) {
  SlicedRun run(SlicedRun::Others::kMayTake, kSlice);
  run.Launch();
  const std::string output = run.End();
  EXPECT_FALSE(WentInSlices(output)) << output;
  EXPECT_NE(output.find("1 launches plain: short"), std::string::npos) << output;
}

TEST(Sliced, PlainWithoutGates) {
  SlicedRun run(SlicedRun::Others::kMayTake, kBlocks, {{"CUPOLA_GATE_EVERY", "0"}});
  run.Launch();
  run.AwaitBegun(kBlocks);
  EXPECT_FALSE(WentInSlices(run.End())) << run.program.output();
}

}  // namespace
}  // namespace cupola::preempt_test
