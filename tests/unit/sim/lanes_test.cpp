// Lanes of a warp that come apart: calls, barriers, warp operations.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/sim/small_kernel.h"

namespace cupola::sim {
namespace {

using LanesTest = SmallKernelTest;

/// Lanes of one warp in two functions at a time, whose registers have other widths: neither writes
/// over what the other keeps. Each waits inside for the other half of the warp.
TEST_F(LanesTest, LanesInTwoFunctionsKeepTheirRegisters) {
  const std::string functions = R"(
    .func wide(.param .b64 to)
    {
      .reg .b64 %x<4>; .reg .b64 %p; .reg .b32 %t;
      ld.param.b64 %p, [to];
      mov.u32 %t, %tid.x;
      cvt.u64.u32 %x0, %t;
      mul.lo.u64 %x1, %x0, 0x100000001;
      add.u64 %x2, %x1, 0x1111111111111111;
      bar.warp.sync 0xffffffff;
      bar.warp.sync 0xffffffff;
      sub.u64 %x2, %x2, %x1;
      cvt.u32.u64 %t, %x2;
      st.global.b32 [%p], %t;
      ret;
    }
    .func narrow(.param .b64 to)
    {
      .reg .b32 %x<12>; .reg .b64 %p;
      ld.param.b64 %p, [to];
      bar.warp.sync 0xffffffff;
      mov.u32 %x0, 0x22222222; mov.u32 %x1, %x0; mov.u32 %x2, %x0; mov.u32 %x3, %x0;
      mov.u32 %x4, %x0; mov.u32 %x5, %x0; mov.u32 %x6, %x0; mov.u32 %x7, %x0;
      mov.u32 %x8, %x0; mov.u32 %x9, %x0; mov.u32 %x10, %x0; mov.u32 %x11, %x0;
      bar.warp.sync 0xffffffff;
      st.global.b32 [%p], %x11;
      ret;
    }
  )";
  const std::string body = R"(
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd1, %rd0, %rd1;
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p1, %r1, 0;
    mov.u64 %rd2, wide;
    @%p1 mov.u64 %rd2, narrow;
    { .param .b64 to; st.param.b64 [to], %rd1;
    any: .callprototype _ (.param .b64 _);
    call %rd2, (to), any; }
  )";
  Launcher launcher(device_.get());
  launcher.Submit(Make(Kernel(body, functions), word_, 32));
  const auto fault = launcher.Wait();
  ASSERT_FALSE(fault) << fault->message;
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(Words()[i], i % 2 == 0 ? 0x22222222u : 0x11111111u) << i;
}

TEST_F(LanesTest, NamesADeadlock) {
  const auto fault = Run("bar.sync 1, 64;");
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->message.find("deadlock"), std::string::npos) << fault->message;
}

// Of lanes that wait apart from each other a GPU has one of their barriers executed for all.
TEST_F(LanesTest, LanesOfAWarpWaitAtOneBarrier) {
  const auto apart = [this](const std::string& one, const std::string& other) {
    return Run("mov.u32 %r1, %tid.x; setp.lt.u32 %p0, %r1, 9; setp.eq.u32 %p1, %r1, 3;\n"
               "@%p0 bra ONE;\n" + other + "\nbra OUT;\nONE:\n" + one + "\nOUT:\n");
  };
  const std::string any = "barrier.red.or.pred %p2, 1, %p1;", count = "barrier.red.popc.u32 %r2, 1, %p1;";
  const std::string meets = "barrier.sync 1;", aligned = "bar.red.or.pred %p2, 1, %p1;";
  EXPECT_FALSE(apart(meets, meets));
  EXPECT_FALSE(apart("bar.sync 1;", "bar.sync 1;"));
  for (const auto& [one, other] : {std::pair(any, any), {count, count}, {any, meets}, {meets, count}, {aligned, any},
                                    {any, aligned}}) {
    const auto fault = apart(one, other);
    ASSERT_TRUE(fault) << one << other;
    EXPECT_EQ(fault->kind, FaultKind::kIllegalInstruction);
    EXPECT_NE(fault->message.find("at two barriers"), std::string::npos) << fault->message;
  }
  const auto fault = apart("barrier.sync 2, 32;", "barrier.sync 3, 32;");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kIllegalInstruction);
}

// At one place at any time, they are told.
TEST_F(LanesTest, LanesOfAWarpComeToABarrierAtAnyTime) {
  ASSERT_FALSE(Run("mov.u32 %r1, %tid.x; setp.lt.u32 %p0, %r1, 9; setp.eq.u32 %p1, %r1, 3;\n"
                   "@%p0 bra MEET;\nadd.u32 %r1, %r1, 1;\nMEET:\n"
                   "barrier.red.popc.u32 %r2, 1, %p1;\nst.global.u32 [%rd0], %r2;"));
  EXPECT_EQ(Words()[0], 1u);
}

TEST_F(LanesTest, LanesOfTwoBranchesMeetUnderOneMask) {
  // Where the ISA asks for the same mask, not for the same instruction: a branch that arrives first
  // has to wait for the other one.
  const std::string both =
      "mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;\n"
      "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;\n"
      "vote.sync.ballot.b32 %r1, %p1, -1; bra JOIN;\n"
      "LOW: vote.sync.ballot.b32 %r1, !%p1, -1;\nJOIN:\n"
      "shfl.sync.bfly.b32 %r2, %r0, 16, 31, -1;\n"
      "mad.lo.u32 %r1, %r1, 100, %r2; st.global.u32 [%rd0], %r1;";
  ASSERT_FALSE(Run(both));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(Words()[i], i ^ 16) << i;
  const std::string split =
      "mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;\n"
      "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;\n"
      "vote.sync.ballot.b32 %r1, !%p1, -1; bra JOIN;\n"
      "LOW: vote.sync.ballot.b32 %r1, %p1, -1;\nJOIN: st.global.u32 [%rd0], %r1;";
  ASSERT_FALSE(Run(split));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(Words()[i], 0xFFFFFFFFu) << i;
}

}  // namespace
}  // namespace cupola::sim
