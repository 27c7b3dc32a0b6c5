// The table of opcodes and what is left out of the counts, proven against ptxas: kernels of one
// floating-point instruction each, compiled here.
#include "device/compiler/build/sass.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "device/compiler/build/compiler.h"
#include "tests/paths.h"
#include "tests/unit/build/multiply_add_registers.h"

namespace cupola::build {
namespace {

struct Case {
  const char* name;
  const char* body;
  FloatCounts expected;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"add_f32", "add.f32 %f9,%f0,%f1; st.global.f32 [%a],%f9;", {{"FADD", 1}}},
      {"add_constant", "add.f32 %f9,%f0,0f3FC12345; st.global.f32 [%a],%f9;", {{"FADD", 1}}},
      {"mul_f32", "mul.f32 %f9,%f0,%f1; st.global.f32 [%a],%f9;", {{"FMUL", 1}}},
      {"fma_f32", "fma.rn.f32 %f9,%f0,%f1,%f2; st.global.f32 [%a],%f9;", {{"FFMA", 1}}},
      {"fma_rz", "fma.rz.f32 %f9,%f0,%f1,%f2; st.global.f32 [%a],%f9;", {{"FFMA", 1}}},
      {"fused", "mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2; st.global.f32 [%a],%f9;", {{"FFMA", 1}}},
      {"not_fused",
       "mul.rn.f32 %f8,%f0,%f1; add.rn.f32 %f9,%f8,%f2; st.global.f32 [%a],%f9;",
       {{"FMUL", 1}, {"FADD", 1}}},
      {"min_f32", "min.f32 %f9,%f0,%f1; st.global.f32 [%a],%f9;", {{"FMNMX", 1}}},
      {"setp_f32", "setp.lt.f32 %p0,%f0,%f1; @%p0 st.global.f32 [%a],%f2;", {{"FSETP", 1}}},
      {"set_f32", "set.lt.f32.f32 %f9,%f0,%f1; st.global.f32 [%a],%f9;", {{"FSET", 1}}},
      {"add_f64", "add.f64 %d9,%d0,%d1; st.global.f64 [%a],%d9;", {{"DADD", 1}}},
      {"mul_f64", "mul.f64 %d9,%d0,%d1; st.global.f64 [%a],%d9;", {{"DMUL", 1}}},
      {"fma_f64", "fma.rn.f64 %d9,%d0,%d1,%d2; st.global.f64 [%a],%d9;", {{"DFMA", 1}}},
      {"setp_f64", "setp.lt.f64 %p0,%d0,%d1; @%p0 st.global.f64 [%a],%d2;", {{"DSETP", 1}}},
      {"cos",
       "cos.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;",
       {{"MUFU.COS", 1}, {"FMUL", 1}}},
      {"sin",
       "sin.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;",
       {{"MUFU.SIN", 1}, {"FMUL", 1}}},
      {"ex2", "ex2.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.EX2", 1}}},
      {"lg2", "lg2.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.LG2", 1}}},
      {"rcp", "rcp.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.RCP", 1}}},
      {"rsqrt", "rsqrt.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.RSQ", 1}}},
      {"sqrt", "sqrt.approx.ftz.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.SQRT", 1}}},
      {"tanh", "tanh.approx.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"MUFU.TANH", 1}}},
      {"rcp_f64", "rcp.approx.ftz.f64 %d9,%d0; st.global.f64 [%a],%d9;", {{"MUFU.RCP64H", 1}}},
      {"rsqrt_f64", "rsqrt.approx.ftz.f64 %d9,%d0; st.global.f64 [%a],%d9;", {{"MUFU.RSQ64H", 1}}},
      {"add_f16", "add.f16 %h9,%h0,%h1; st.global.b16 [%a],%h9;", {{"HADD2", 1}}},
      {"mul_f16", "mul.f16 %h9,%h0,%h1; st.global.b16 [%a],%h9;", {{"HMUL2", 1}}},
      {"fma_f16", "fma.rn.f16 %h9,%h0,%h1,%h2; st.global.b16 [%a],%h9;", {{"HFMA2", 1}}},
      {"fma_f16x2", "fma.rn.f16x2 %r9,%r0,%r1,%r2; st.global.b32 [%a],%r9;", {{"HFMA2", 1}}},
      {"fma_bf16x2", "fma.rn.bf16x2 %r9,%r0,%r1,%r2; st.global.b32 [%a],%r9;", {{"HFMA2", 1}}},
      {"min_f16x2", "min.f16x2 %r9,%r0,%r1; st.global.b32 [%a],%r9;", {{"HMNMX2", 1}}},
      {"setp_f16", "setp.lt.f16 %p0,%h0,%h1; @%p0 st.global.b16 [%a],%h2;", {{"HSETP2", 1}}},
      {"set_f16x2", "set.lt.f16x2.f16x2 %r9,%r0,%r1; st.global.b32 [%a],%r9;", {{"HSET2", 1}}},
      {"to_f16", "cvt.rn.f16.f32 %h9,%f0; st.global.b16 [%a],%h9;", {{"F2FP", 1}}},
      {"to_f16_up", "cvt.rp.f16.f32 %h9,%f0; st.global.b16 [%a],%h9;", {{"F2F", 1}}},
      {"to_bf16x2", "cvt.rn.bf16x2.f32 %r9,%f0,%f1; st.global.b32 [%a],%r9;", {{"F2FP", 1}}},
      {"to_e4m3",
       "cvt.rn.satfinite.e4m3x2.f32 %h9,%f0,%f1; st.global.b16 [%a],%h9;",
       {{"F2FP", 1}}},
      {"f64_of_f32", "cvt.f64.f32 %d9,%f0; st.global.f64 [%a],%d9;", {{"F2F.64", 1}}},
      {"f32_of_f64", "cvt.rn.f32.f64 %f9,%d0; st.global.f32 [%a],%f9;", {{"F2F.64", 1}}},
      {"f32_of_s32", "cvt.rn.f32.s32 %f9,%r0; st.global.f32 [%a],%f9;", {{"I2FP", 1}}},
      {"f16_of_s32", "cvt.rn.f16.s32 %h9,%r0; st.global.b16 [%a],%h9;", {{"I2F", 1}}},
      {"f64_of_s64", "cvt.rn.f64.s64 %d9,%l0; st.global.f64 [%a],%d9;", {{"I2F.64", 1}}},
      {"s32_of_f32", "cvt.rzi.s32.f32 %r9,%f0; st.global.b32 [%a],%r9;", {{"F2I", 1}}},
      {"s64_of_f64", "cvt.rzi.s64.f64 %l9,%d0; st.global.b64 [%a],%l9;", {{"F2I.64", 1}}},
      {"round_f32", "cvt.rni.f32.f32 %f9,%f0; st.global.f32 [%a],%f9;", {{"FRND", 1}}},
      {"div_f32",
       "div.rn.f32 %f9,%f0,%f1; st.global.f32 [%a],%f9;",
       {{"FADD", 2}, {"FCHK", 1}, {"FFMA", 17}, {"FSETP", 6}, {"MUFU.RCP", 2}, {"MUFU.RSQ", 1}}},
      {"round_f64", "cvt.rni.f64.f64 %d9,%d0; st.global.f64 [%a],%d9;", {{"FRND.64", 1}}},
      {"mma_f16",
       "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f6,%f7,%f8,%f9},{%r0,%r1,%r2,%r3},"
       "{%r4,%r5},{%f0,%f1,%f2,%f0}; st.global.f32 [%a],%f6;",
       {{"HMMA", 1}}},
      {"mma_s8",
       "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r6,%r7,%r8,%r9},{%r0,%r1,%r2,%r3},"
       "{%r4,%r5},{%r0,%r1,%r2,%r3}; st.global.b32 [%a],%r6;",
       {{"IMMA", 1}}},
      {"mma_b1",
       "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r6,%r7,%r8,%r9},"
       "{%r0,%r1,%r2,%r3},{%r4,%r5},{%r0,%r1,%r2,%r3}; st.global.b32 [%a],%r6;",
       {{"BMMA", 1}}},
      {"mma_f64",
       "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d8,%d9},{%d0},{%d1},{%d2,%d2}; "
       "st.global.f64 [%a],%d8;",
       {{"DMMA", 1}}},
#define WGMMA(shape, types, registers, tail)                                               \
  "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned." shape "." types " {" registers \
  "},%l0,%l1,1" tail "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
      {"wgmma_f16",
       WGMMA("m64n8k16", "f32.f16.f16", "%f0,%f1,%f2,%f3", ",1,1,0,0") "st.global.f32 [%a],%f0;",
       {{"HGMMA", 1}}},
      {"wgmma_s8",
       WGMMA("m64n8k32", "s32.s8.s8", "%r0,%r1,%r2,%r3", "") "st.global.b32 [%a],%r0;",
       {{"IGMMA", 1}}},
      {"wgmma_b1",
       WGMMA("m64n8k256", "s32.b1.b1.and.popc", "%r0,%r1,%r2,%r3", "") "st.global.b32 [%a],%r0;",
       {{"BGMMA", 1}}},
      {"wgmma_e4m3",
       WGMMA("m64n8k32", "f32.e4m3.e4m3", "%f0,%f1,%f2,%f3", ",1,1") "st.global.f32 [%a],%f0;",
       {{"QGMMA", 1}}},
      // What serves integers, and what only moves bits.
      {"nothing", "st.global.f32 [%a],%f0;", {}},
      {"integers", "mad.lo.s32 %r9,%r0,%r1,%r2; st.global.b32 [%a],%r9;", {}},
      {"select", "setp.lt.s32 %p0,%r0,%r1; selp.f32 %f9,%f0,%f1,%p0; st.global.f32 [%a],%f9;", {}},
      {"div_u32", "div.u32 %r9,%r0,%r1; st.global.b32 [%a],%r9;", {}},
      {"div_s32", "div.s32 %r9,%r0,%r1; st.global.b32 [%a],%r9;", {}},
      {"rem_u32", "rem.u32 %r9,%r0,%r1; st.global.b32 [%a],%r9;", {}},
      {"div_u64", "div.u64 %l9,%l0,%l1; st.global.b64 [%a],%l9;", {}},
      {"rem_s64", "rem.s64 %l9,%l0,%l1; st.global.b64 [%a],%l9;", {}},
      {"div_and_rcp",
       "div.u32 %r9,%r0,%r1; st.global.b32 [%a],%r9; rcp.approx.ftz.f32 %f9,%f0; "
       "st.global.f32 [%a+4],%f9;",
       {{"MUFU.RCP", 1}}},
      {"constants",
       "st.global.b32 [%a],1065353216; st.global.b32 [%a+4],7; "
       "st.global.b32 [%a+8],99; st.global.b32 [%a+12],12345;",
       {}},
  };
  return cases;
}

std::string ModuleText() {
  std::string text = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  for (const Case& one : Cases()) {
    text += std::string(".visible .entry ") + one.name + "(.param .u64 p)\n{\n" +
            ".reg .f32 %f<10>; .reg .f64 %d<10>; .reg .b16 %h<10>; .reg .b32 %r<10>;\n"
            ".reg .b64 %l<10>; .reg .b64 %a; .reg .pred %p<2>;\nld.param.u64 %a,[p];\n";
    const auto load = [&text](const char* type, char letter, int count, int first, int step) {
      for (int i = 0; i < count; ++i) {
        text += std::string("ld.volatile.global.") + type + " %" + letter + std::to_string(i) +
                ",[%a+" + std::to_string(first + i * step) + "];\n";
      }
    };
    load("f32", 'f', 4, 0, 4);
    load("f64", 'd', 3, 16, 8);
    load("u16", 'h', 3, 40, 2);
    load("u32", 'r', 6, 48, 4);
    load("u64", 'l', 2, 80, 8);
    text += std::string(one.body) + "\nret;\n}\n";
  }
  return text;
}

std::string Show(const FloatCounts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += name + " " + std::to_string(count) + "  ";
  return text;
}

class SassTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(CUPOLA_PTXAS_PATH).empty()) GTEST_SKIP() << "no ptxas";
    const Result<std::unique_ptr<Compiler>> compiler = FindCompiler({.ptxas = CUPOLA_PTXAS_PATH});
    ASSERT_TRUE(compiler) << compiler.error().ToString();
    const std::string text = ModuleText();
    const Result<std::vector<uint8_t>> cubin =
        (*compiler)->Compile({.ptx = text, .arch = 90, .arch_suffix = 'a'});
    ASSERT_TRUE(cubin) << cubin.error().ToString();
    cubin_ = *cubin;
    Result<std::vector<SassFunction>> functions = CountFloats(cubin_);
    ASSERT_TRUE(functions) << functions.error().ToString();
    for (SassFunction& function : *functions) functions_[function.name] = std::move(function);
  }

  std::vector<uint8_t> cubin_;
  std::map<std::string, SassFunction> functions_;
};

TEST_F(SassTest, EveryInstructionIsCountedAsWhatItIs) {
  for (const Case& one : Cases()) {
    ASSERT_TRUE(functions_.contains(one.name)) << one.name;
    EXPECT_EQ(functions_[one.name].floats, one.expected)
        << one.name << ": " << Show(functions_[one.name].floats);
    EXPECT_GT(functions_[one.name].instructions, 10u);
  }
}

TEST_F(SassTest, EveryRowOfTheTableIsProven) {
  std::set<std::string> proven;
  for (const auto& [name, function] : functions_) {
    for (const auto& [opcode, count] : function.floats) {
      proven.insert(opcode.substr(0, opcode.starts_with("MUFU") ? 4 : std::string::npos));
    }
  }
#define CUPOLA_SASS(code, name) EXPECT_TRUE(proven.contains(name)) << name;
#include "device/compiler/build/sass_opcodes.def"
#include "tests/paths.h"
#undef CUPOLA_SASS
}

TEST(FloatDifference, NamesWhatDiffers) {
  EXPECT_EQ(FloatDifference({{"FADD", 2}}, {{"FADD", 2}}), "");
  EXPECT_EQ(FloatDifference({{"FADD", 2}, {"FMUL", 1}}, {{"FADD", 1}, {"FFMA", 1}}),
            "FADD 1 (original 2), FFMA 1 (original 0), FMUL 0 (original 1)");
}

TEST(CountFloats, OldAndDamagedCodeIsRefused) {
  const std::vector<uint8_t> nothing(100);
  EXPECT_FALSE(CountFloats(nothing));
  EXPECT_FALSE(CountFloats({}));
}

// Three different registers that are all even, or all odd.
TEST_F(SassTest, OperandsInOneBank) {
  struct {
    uint64_t a, b, c;
    uint32_t conflicts;
  } const cases[] = {{1, 3, 5, 1},   {2, 4, 0, 1},   {1, 3, 4, 0},  {1, 2, 3, 0},
                     {2, 1, 3, 0},   {1, 1, 3, 0},   {1, 3, 3, 0},  {3, 1, 3, 0},
                     {1, 3, 255, 0}, {255, 3, 5, 0}, {1, 255, 3, 0}};
  for (const auto& one : cases) {
    ASSERT_GT(SetMultiplyAddRegisters(cubin_, one.a, one.b, one.c), 0);
    const Result<std::vector<SassFunction>> functions = CountFloats(cubin_);
    ASSERT_TRUE(functions);
    for (const SassFunction& function : *functions) {
      if (function.name != "fma_f32") continue;
      EXPECT_EQ(function.bank_conflicts, one.conflicts) << one.a << " " << one.b << " " << one.c;
    }
  }
}

}  // namespace
}  // namespace cupola::build
