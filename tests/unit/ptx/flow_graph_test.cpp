// Barriers on ways that others do not take, and what is the same for the lanes of a warp.
#include "device/compiler/ptx/flow_graph.h"

#include <gtest/gtest.h>

#include <string>

#include "device/compiler/ptx/parse.h"

namespace cupola::ptx {
namespace {

Module Body(const std::string& body) {
  auto module = Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
      ".reg .b32 %r<20>;\n.reg .b64 %rd<9>;\n.reg .pred %p<9>;\n"
      "mov.u32 %r1, %tid.x;\nld.param.u32 %r2, [n];\n" +
          body + "\n}\n",
      "k.ptx");
  EXPECT_TRUE(module) << module.error().ToString();
  return module ? *module : Module{};
}

bool IsBlockWait(const Instruction& each) { return each.opcode == "bar"; }
bool IsShuffle(const Instruction& each) { return each.opcode == "shfl"; }

bool Divergent(const std::string& body, bool params_differ = false) {
  const Module module = Body(body);
  return HasDivergentBarrier(BuildFlowGraph(*module.FindFunction("k")), IsBlockWait, params_differ);
}

bool Early(const std::string& body, Threads threads) {
  const Module module = Body(body);
  return HasEarlyReturn(BuildFlowGraph(*module.FindFunction("k")), IsShuffle, threads);
}

const std::string kHalf = "setp.lt.u32 %p1, %r1, 16;\n";
const std::string kShuffle = "shfl.sync.down.b32 %r9, %r8, 1, 31, -1;\n";

TEST(DivergentBarrier, OnOneOfTwoWays) {
  EXPECT_TRUE(Divergent(kHalf + "@%p1 bra A;\nbar.sync 0;\nA: ret;"));
  EXPECT_TRUE(
      Divergent(kHalf + "@%p1 bra A;\nbar.sync 0;\nbra E;\nA:\nbar.sync 0;\nbar.sync 0;\nE: ret;"));
  EXPECT_TRUE(Divergent(kHalf + "@%p1 bar.sync 0;\nret;"));
  EXPECT_FALSE(Divergent(kHalf + "@%p1 bra A;\nadd.u32 %r3, %r3, 1;\nA:\nbar.sync 0;\nret;"));
}

TEST(DivergentBarrier, InALoopThatThreadsLeaveOneByOne) {
  const std::string loop = "L:\nbar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, ";
  EXPECT_TRUE(Divergent("mov.u32 %r5, 0;\n" + loop + "%r1;\n@%p2 bra L;\nret;"));
  EXPECT_FALSE(Divergent("mov.u32 %r5, 0;\n" + loop + "%r2;\n@%p2 bra L;\nret;"));
  EXPECT_TRUE(Divergent("mov.u32 %r5, 0;\n" + loop + "%r2;\n@%p2 bra L;\nret;", true));
}

TEST(DivergentBarrier, BehindACounterThatEachThreadReadsForItself) {
  for (const std::string counter : {"%clock", "%pm0", "%smid"}) {
    EXPECT_TRUE(Divergent("mov.u32 %r4, " + counter + ";\nsetp.lt.u32 %p1, %r4, 9;\n@%p1 bra A;\nbar.sync 0;\nA: ret;"))
        << counter;
  }
}

// A label of inline code stands for another place in each of its copies.
TEST(DivergentBarrier, BehindALabelOfItsScope) {
  const std::string loop = "{\nL:\nbar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, ";
  const std::string again = "{\nL:\nadd.u32 %r3, %r3, 1;\n}\nret;";
  EXPECT_TRUE(Divergent("mov.u32 %r5, 0;\n" + loop + "%r1;\n@%p2 bra L;\n}\n" + again));
  EXPECT_FALSE(Divergent("mov.u32 %r5, 0;\n" + loop + "%r2;\n@%p2 bra L;\n}\n" + again));
  // A branch out of a scope.
  EXPECT_TRUE(Divergent(kHalf + "{\n@%p1 bra A;\nbar.sync 0;\n}\nA:\nret;"));
}

TEST(EarlyReturnOfWarp, LanesThatLeave) {
  for (const Threads threads : {Threads::kOfWarp, Threads::kOfWarpInRow}) {
    EXPECT_TRUE(Early(kHalf + "@%p1 ret;\n" + kShuffle + "ret;", threads));
    EXPECT_FALSE(Early(kShuffle + kHalf + "@%p1 ret;\nadd.u32 %r3, %r3, 1;\nret;", threads));
    // A barrier more on one way than on the other, then the end.
    EXPECT_TRUE(
        Early(kHalf + "@%p1 bra A;\n" + kShuffle + "bra E;\nA:\n" + kShuffle + kShuffle + "E: ret;",
              threads));
  }
}

TEST(EarlyReturnOfWarp, WholeWarpsMayLeaveInBlocksOfOneDimension) {
  for (const std::string condition : {"setp.gt.u32 %p1, %r1, 31;\n", "setp.ge.u32 %p1, %r1, 64;\n",
                                      "shr.u32 %r4, %r1, 5;\nsetp.ne.u32 %p1, %r4, 0;\n",
                                      "and.b32 %r4, %r1, 992;\nsetp.ne.u32 %p1, %r4, 0;\n"}) {
    const std::string body = condition + "@%p1 bra E;\n" + kShuffle + "E: ret;";
    EXPECT_TRUE(Early(body, Threads::kOfBlock)) << condition;
    EXPECT_TRUE(Early(body, Threads::kOfWarp)) << condition;
    EXPECT_FALSE(Early(body, Threads::kOfWarpInRow)) << condition;
  }
  EXPECT_TRUE(Early("setp.gt.u32 %p1, %r1, 32;\n@%p1 bra E;\n" + kShuffle + "E: ret;",
                    Threads::kOfWarpInRow));
}

// A register that holds %tid.x at one place may hold something else at another.
TEST(EarlyReturnOfWarp, OnlyWhatIsAlwaysTheThreadsNumberIsTheSameForAWarp) {
  const std::string rest = "setp.gt.u32 %p1, %r1, 31;\n@%p1 bra E;\n" + kShuffle + "E: ret;";
  EXPECT_FALSE(Early(rest, Threads::kOfWarpInRow));
  EXPECT_FALSE(Early("st.shared.u32 [%r1], %r2;\n" + rest, Threads::kOfWarpInRow)) << "that does not set it";
  for (const std::string other :
       {"ld.local.u32 %r1, [0];\n", "ld.local.v2.u32 {%r1, %r3}, [0];\n", "mov.b64 {%r3, %r1}, %rd1;\n",
        "shfl.sync.bfly.b32 %r1|%p2, %r3, 1, 31, -1;\n", "call (%r1), f, (%r3);\n", "@%p2 mov.b64 {%r1, _}, %rd1;\n"}) {
    EXPECT_TRUE(Early(other + rest, Threads::kOfWarpInRow)) << other;
  }
}

TEST(EarlyReturnOfWarp, VotesAreTheSameForAll) {
  const std::string rest = "@%p3 ret;\n" + kShuffle + "ret;";
  EXPECT_FALSE(Early(kHalf + "vote.sync.any.pred %p3, %p1, -1;\n" + rest, Threads::kOfWarp));
  EXPECT_TRUE(Early(kHalf + "vote.sync.any.pred %p3, %p1, -1;\n" + rest, Threads::kOfBlock));
  const std::string lane = "setp.eq.u32 %p3, %r4, 3;\n";
  EXPECT_FALSE(Early("shfl.sync.idx.b32 %r4, %r1, 0, 31, -1;\n" + lane + rest, Threads::kOfWarp));
  EXPECT_TRUE(Early("shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;\n" + lane + rest, Threads::kOfWarp));
}

}  // namespace
}  // namespace cupola::ptx
