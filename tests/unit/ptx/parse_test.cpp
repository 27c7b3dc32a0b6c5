#include "device/compiler/ptx/parse.h"

#include <gtest/gtest.h>

namespace cupola::ptx {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_90, debug\n.address_size 64\n";

Module MustParse(const std::string& text) {
  Result<Module> module = Parse(text, "t.ptx");
  EXPECT_TRUE(module.ok()) << module.error().ToString();
  return module ? std::move(*module) : Module{};
}

/// The instructions of the only function's body.
std::vector<Instruction> Instructions(const std::string& body) {
  const Module module = MustParse(std::string(kHead) + ".entry k()\n{\n" + body + "\n}\n");
  std::vector<Instruction> found;
  if (module.items.empty()) return found;
  for (const Statement& statement : std::get<Function>(module.items.back()).body->statements) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
      found.push_back(*instruction);
    }
  }
  return found;
}

TEST(Parse, ReadsTheHead) {
  const Module module = MustParse(std::string(kHead) + '\0' + '\0');
  EXPECT_EQ(module.version_major, 9u);
  EXPECT_EQ(module.version_minor, 0u);
  EXPECT_EQ(module.targets, (std::vector<std::string>{"sm_90", "debug"}));
  EXPECT_EQ(module.address_size, 64u);
  EXPECT_TRUE(module.has_address_size);
}

TEST(Parse, ReadsAGuardedInstructionWithPositions) {
  const auto code = Instructions("  @!%p1 ld.global.L1::evict_last.v2.f32 {%f1, _}, [%rd4+-8];");
  ASSERT_EQ(code.size(), 1u);
  EXPECT_EQ(code[0].guard->predicate, "%p1");
  EXPECT_TRUE(code[0].guard->negated);
  EXPECT_EQ(code[0].opcode, "ld");
  EXPECT_EQ(code[0].modifiers,
            (std::vector<std::string>{"global", "L1::evict_last", "v2", "f32"}));
  ASSERT_EQ(code[0].operands.size(), 2u);
  EXPECT_EQ(code[0].operands[0].kind, Operand::Kind::kVector);
  EXPECT_EQ(code[0].operands[0].children[1].text, "_");
  EXPECT_EQ(code[0].operands[1].kind, Operand::Kind::kAddress);
  EXPECT_EQ(code[0].operands[1].children[0].text, "%rd4");
  EXPECT_EQ(code[0].operands[1].integer, -8);
  EXPECT_EQ(code[0].pos.line, 6u);
  EXPECT_EQ(code[0].pos.column, 3u);
}

TEST(Parse, EvaluatesConstantExpressions) {
  const auto code = Instructions(
      "f 0x1F, 017, 0b101, -5, (1<<4)+3, 7/2*2, -8>>1, (.u64)-8>>60, 5>3?10:20, WARP_SZ*2, ~0, "
      "0xFFFFFFFFFFFFFFFFU, !0, 2+3*4, 1||0;");
  ASSERT_EQ(code.size(), 1u);
  std::vector<int64_t> values;
  for (const Operand& operand : code[0].operands) {
    EXPECT_EQ(operand.kind, Operand::Kind::kInteger) << operand.text;
    values.push_back(operand.integer);
  }
  EXPECT_EQ(values, (std::vector<int64_t>{31, 15, 5, -5, 19, 6, -4, 15, 10, 64, -1, -1, 1, 14, 1}));
}

TEST(Parse, ReadsFloats) {
  const auto code = Instructions("f 0f3F800000, 0dBFF0000000000000, 1.5, -0f3F800000, 1e3;");
  ASSERT_EQ(code[0].operands.size(), 5u);
  EXPECT_EQ(code[0].operands[0].integer, 0x3F800000);
  EXPECT_EQ(code[0].operands[0].width, 32);
  EXPECT_EQ(code[0].operands[1].integer, static_cast<int64_t>(0xBFF0000000000000));
  EXPECT_EQ(code[0].operands[2].width, 64);
  EXPECT_EQ(code[0].operands[3].integer, 0xBF800000);
  EXPECT_EQ(code[0].operands[4].integer, 0x408F400000000000);
}

TEST(Parse, ReadsCallsAndPairs) {
  const auto code = Instructions(
      "call.uni (r), f, (a, b), proto;\nsetp.lt.s32 p|q, %r1, 3;\n"
      "tex.2d.v4.f32.f32 {a,b,c,d}|p, [t, s, {x, y}];\nmov.u64 %rd1, g+16;\nmov.u32 %r1, %tid.x;");
  ASSERT_EQ(code.size(), 5u);
  ASSERT_EQ(code[0].operands.size(), 4u);
  EXPECT_EQ(code[0].operands[0].kind, Operand::Kind::kList);
  EXPECT_EQ(code[0].operands[2].children.size(), 2u);
  EXPECT_EQ(code[1].operands[0].kind, Operand::Kind::kPair);
  EXPECT_EQ(code[2].operands[0].children[0].kind, Operand::Kind::kVector);
  ASSERT_EQ(code[2].operands[1].children.size(), 3u);
  EXPECT_EQ(code[2].operands[1].children[2].kind, Operand::Kind::kVector);
  EXPECT_EQ(code[3].operands[1].kind, Operand::Kind::kOffset);
  EXPECT_EQ(code[3].operands[1].integer, 16);
  EXPECT_EQ(code[4].operands[1].text, "%tid.x");
}

}  // namespace
}  // namespace cupola::ptx
