#include "device/compiler/build/fusion.h"

#include <gtest/gtest.h>

#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"

namespace cupola::build {
namespace {

bool Fuses(const std::string& body, const std::string& functions = "") {
  const Result<ptx::Module> module =
      ptx::Parse(".version 9.0\n.target sm_90\n.address_size 64\n" + functions +
                     ".visible .entry k()\n{\n.reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p;\n"
                     ".shared .f32 s;\n" +
                     body + "\nret;\n}\n",
                 "test");
  EXPECT_TRUE(module) << module.error().ToString();
  return MayBeFused(*module, "k");
}

TEST(MayBeFused, AProductThatIsAdded) {
  EXPECT_TRUE(Fuses("mul.f32 %f1,%f2,%f3; add.f32 %f4,%f1,%f5;"));
  EXPECT_TRUE(Fuses("mul.ftz.f32 %f1,%f2,%f3; sub.ftz.f32 %f4,%f5,%f1;"));
  EXPECT_TRUE(Fuses("mul.f64 %d1,%d2,%d3; add.f64 %d4,%d1,%d5;"));
  EXPECT_FALSE(Fuses("mul.f32 %f1,%f2,%f3; add.f32 %f4,%f2,%f5;"));
  EXPECT_FALSE(Fuses("add.f32 %f4,%f1,%f5;"));
}

TEST(MayBeFused, RoundingModifiersFixTheResult) {
  EXPECT_FALSE(Fuses("mul.rn.f32 %f1,%f2,%f3; add.f32 %f4,%f1,%f5;"));
  EXPECT_FALSE(Fuses("mul.f32 %f1,%f2,%f3; add.rn.f32 %f4,%f1,%f5;"));
  EXPECT_FALSE(Fuses("fma.rn.f32 %f1,%f2,%f3,%f4; add.f32 %f4,%f1,%f5;"));
}

TEST(MayBeFused, ProductsThatMoveOn) {
  EXPECT_TRUE(Fuses("mul.f32 %f1,%f2,%f3; mov.f32 %f6,%f1; neg.f32 %f7,%f6; add.f32 %f4,%f7,%f5;"));
  EXPECT_TRUE(
      Fuses("L: add.f32 %f4,%f7,%f5; mov.f32 %f7,%f6; selp.f32 %f6,%f1,%f2,%p; "
            "mul.f32 %f1,%f2,%f3; bra L;"));
  EXPECT_TRUE(
      Fuses("mul.f32 %f1,%f2,%f3; st.shared.f32 [s],%f1; ld.shared.f32 %f7,[s]; "
            "add.f32 %f4,%f7,%f5;"));
  EXPECT_FALSE(Fuses("mul.f32 %f1,%f2,%f3; ld.shared.f32 %f7,[s]; add.f32 %f4,%f7,%f5;"));
}

TEST(MayBeFused, ThroughFunctions) {
  const std::string adds =
      ".func (.param .f32 r) f(.param .f32 a)\n{\n.reg .f32 %f<3>;\nld.param.f32 %f1,[a];\n"
      "add.f32 %f2,%f1,%f1;\nst.param.f32 [r],%f2;\nret;\n}\n";
  const std::string call =
      "{ .param .f32 x; .param .f32 y; st.param.f32 [x],%f1; call (y), f, (x); }";
  EXPECT_TRUE(Fuses("mul.f32 %f1,%f2,%f3; " + call, adds));
  EXPECT_FALSE(Fuses("mul.rn.f32 %f1,%f2,%f3; " + call, adds));
}

// Of nested blocks and vectors too, before what else the instruction says; integers have none.
TEST(PinRounding, SaysWhatIsTheDefault) {
  Result<ptx::Module> module = ptx::Parse(
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .f32 %f<9>; .reg .b32 %r<9>;\n"
      "mul.ftz.f32 %f1,%f2,%f3; { sub.sat.f32 %f4,%f1,%f5; } add.f16x2 %r1,%r2,%r3;\n"
      "add.rz.f32 %f1,%f2,%f3; fma.rn.f32 %f1,%f2,%f3,%f4; add.s32 %r1,%r2,%r3; ret;\n}\n",
      "test");
  ASSERT_TRUE(module) << module.error().ToString();
  EXPECT_TRUE(MayBeFused(*module, "k"));
  EXPECT_TRUE(PinRounding(*module->FindFunction("k")));
  EXPECT_FALSE(MayBeFused(*module, "k"));
  const std::string text = ptx::Write(*module);
  for (const char* word : {"mul.rn.ftz.f32", "sub.rn.sat.f32", "add.rn.f16x2", "add.rz.f32",
                           "fma.rn.f32", "add.s32"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
  EXPECT_FALSE(PinRounding(*module->FindFunction("k")));
}

}  // namespace
}  // namespace cupola::build
