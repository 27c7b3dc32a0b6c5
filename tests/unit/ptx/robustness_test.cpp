// The parser on input that is damaged, hostile or large.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "device/compiler/ptx/dump.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"

namespace cupola::ptx {
namespace {

constexpr char kSeed[] = R"(.version 9.0
.target sm_90
.address_size 64
.global .align 4 .u32 table[2][2] = {{1, -2}, {0x3U, 1<<2}};
.visible .func (.param .b32 r) f(.param .b32 a) { ret; }
.visible .entry k(.param .u64 .ptr .global .align 4 p)
.maxntid 1, 2, 3
{
	.reg .pred %p<2>; .reg .b64 %rd<4>;
	.loc 1 2 3
	@!%p1 ld.global.v2.u32 {%rd1, _}, [%rd2+-8];
	P: .callprototype (.param .b32 _) _ (.param .b32 _);
	{ call (a), %rd1, (b), P; setp.ne.s32 %p1|_, 1, 0f3F800000; }
	$L_1: bra $L_1;
}
.section .debug_str { .b8 65, 0 }
)";

/// Whatever parses must survive being written and parsed again.
void CheckText(const std::string& text) {
  const Result<Module> module = Parse(text, "");
  if (!module) {
    EXPECT_EQ(module.error().code, ErrorCode::kDamaged);
    EXPECT_GT(module.error().where.line, 0u);
    EXPECT_GT(module.error().where.column, 0u);
    return;
  }
  Validate(*module);
  const std::string written = Write(*module);
  const Result<Module> again = Parse(written, "");
  ASSERT_TRUE(again.ok()) << again.error().ToString() << "\nof\n" << text
                          << "\nwritten\n" << written;
  EXPECT_TRUE(*again == *module) << text << "\nwritten\n" << written;
}

TEST(Robustness, EveryPrefixIsReadOrRefusedWithAPlace) {
  const std::string text = kSeed;
  for (size_t length = 0; length <= text.size(); ++length) CheckText(text.substr(0, length));
}

TEST(Robustness, MutatedTextIsReadOrRefusedWithAPlace) {
  constexpr std::string_view kBytes = "{}()[],;:+-<>=!|.\"@%_a0 \n\t/*#";
  Prng prng(20260101);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kSeed;
    for (uint64_t edits = 1 + prng.Below(3); edits > 0; --edits) {
      const size_t at = prng.Below(text.size());
      if (prng.Below(3) == 0) {
        text.erase(at, 1 + prng.Below(6));
      } else {
        text.insert(at, 1, kBytes[prng.Below(kBytes.size())]);
      }
    }
    CheckText(text);
    if (HasFailure()) return;
  }
}

TEST(Robustness, DeepNestingIsRefused) {
  const std::string head = ".version 9.0\n.target sm_90\n";
  const auto repeat = [](const std::string& text) {
    std::string all;
    for (int i = 0; i < 100000; ++i) all += text;
    return all;
  };
  for (const std::string& text :
       {head + ".func f() " + repeat("{"), head + ".func f() { x " + repeat("{"),
        head + ".func f() { x " + repeat("("), head + ".func f() { x " + repeat("-"),
        head + ".func f() { x " + repeat("[a,"), head + ".func f() { x " + repeat("1?"),
        head + ".global .u32 g = " + repeat("{"), head + ".func f() { x " + repeat("[")}) {
    EXPECT_FALSE(Parse(text, "").ok()) << text.substr(0, 60);
  }
}

TEST(Robustness, LargeModulesTakeLinearTime) {
  std::string text = ".version 9.0\n.target sm_90\n.visible .entry k()\n{\n.reg .b32 %r<9>;\n";
  constexpr size_t kBytes = 7 << 20;
  while (text.size() < kBytes) text += "\tmad.lo.s32 \t%r1, %r2, %r3, %r4;\n";
  text += "}\n";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Parse(text, "").ok());
  // About 0.2 s; generous for sanitizers on a busy machine, far below anything quadratic.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace cupola::ptx
