// Which differences of two texts count.
#include <string>

#include <gtest/gtest.h>

#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/same_tokens.h"
#include "device/compiler/ptx/write.h"

namespace cupola::ptx {
namespace {

TEST(SameTokens, BlanksCommentsAndSpellingsOfIntegersDoNotCount) {
  EXPECT_FALSE(
      FirstTokenDifference("add.s32 %r1, 16, 0x1f;", "add.s32\t%r1 ,\r\n0x10 // x\n,31;\n"));
  EXPECT_FALSE(FirstTokenDifference("{ } /* a */", "{\n}"));
  EXPECT_FALSE(FirstTokenDifference(std::string_view("ret;\0\0", 6), "ret;"));
}

TEST(SameTokens, TheFirstDifferenceIsToldWithBothPlaces) {
  const auto difference = FirstTokenDifference("ld.u32 %r1,\n  [a+0];", "ld.u32 %r1, [a];");
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->first, "'+'");
  EXPECT_EQ(difference->first_pos.line, 2u);
  EXPECT_EQ(difference->first_pos.column, 5u);
  EXPECT_EQ(difference->second, "']'");
  EXPECT_EQ(difference->second_pos.line, 1u);
}

TEST(SameTokens, WhatPtxasSeesCounts) {
  EXPECT_TRUE(FirstTokenDifference("mov.f32 a, 0f3F800000;", "mov.f32 a, 1.0;"));
  EXPECT_TRUE(FirstTokenDifference("mov.u32 a, 1;", "mov.u32 a, 1U;"));
  EXPECT_TRUE(FirstTokenDifference(".pragma \"a\";", ".pragma \"a \";"));
  EXPECT_TRUE(FirstTokenDifference("a.b", "a"));
  const auto end = FirstTokenDifference("ret;", "ret; ret;");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->first, "the end of the text");
}

TEST(SameTokens, CallMarksCountWhereTheyStand) {
  EXPECT_FALSE(FirstTokenDifference("{ // callseq 0, 0\nret; }", "{//callseq 0, 0 \n ret;}"));
  EXPECT_TRUE(FirstTokenDifference("{ // callseq 0, 0\nret; }", "{ ret; }"));
  EXPECT_TRUE(FirstTokenDifference("{ // callseq 0, 0\nret; }", "{ // callseq 1, 0\nret; }"));
  EXPECT_TRUE(FirstTokenDifference("{ // callseq 0, 0\nret; }", "{ ret; // callseq 0, 0\n }"));
}

TEST(SameTokens, TextThatCannotBeReadDiffersFromItself) {
  const auto difference = FirstTokenDifference("a \x80", "a \x80");
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->first, "a byte that is not ASCII stands in the text");
}

TEST(SameTokens, WrittenTextHasThem) {
  constexpr std::string_view kText =
      ".version 9.0\n.target sm_90, debug\n.address_size 64\n"
      ".func () f { { // callseq 0, 0\n .reg .b32 a, b<0>, c<2>; ld.u32 a, [c1+0]; } // callseq 0\n"
      "mov.f32 a, .5; p: .callprototype () _; }";
  const Result<Module> module = Parse(kText, "");
  ASSERT_TRUE(module.ok()) << module.error().ToString();
  const auto difference = FirstTokenDifference(kText, Write(*module));
  EXPECT_FALSE(difference.has_value()) << difference->first << " | " << difference->second;
}

TEST(Write, ADeclarationJoinsOnlyOneOfTheSameKind) {
  const Result<Module> module =
      Parse(".version 9.0\n.target sm_90\n.func f() { .reg .b32 a, b, c; }", "");
  ASSERT_TRUE(module.ok());
  Module changed = *module;
  auto& statements = changed.FindFunction("f")->body->statements;
  std::get<Variable>(statements[1].node).type = "b64";
  const std::string text = Write(changed);
  EXPECT_NE(text.find(".reg .b32 a;\n\t.reg .b64 b;\n\t.reg .b32 c;"), std::string::npos) << text;
  statements.erase(statements.begin());
  EXPECT_NE(Write(changed).find("\t.reg .b64 b;\n"), std::string::npos) << Write(changed);
}

}  // namespace
}  // namespace cupola::ptx
