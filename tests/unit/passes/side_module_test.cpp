// Golden side modules: tests/golden/passes/side/<case>.ptx holds a module, the line "// %%% output
// %%%" and what is made of it; "// body only" leaves out the worker's code, "// facts only" all
// code. CUPOLA_REBASE=1 writes what is made instead. Also what holds of every side module, and
// errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/settings/variables.h"
#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"
#include "tests/paths.h"

namespace cupola::passes {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeparator = "// %%% output %%%\n";
const fs::path kRoot = fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/passes";

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> Cases(const char* folder) {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(kRoot / folder)) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string FactsText(const SideModule& side) {
  std::string text;
  for (const KernelFacts& kernel : side.kernels) {
    const auto answer = [](const std::string& refusal) {
      return refusal.empty() ? std::string("yes") : "no, " + refusal;
    };
    text += "// " + kernel.name + ": preemptible " + answer(kernel.preemptible_refusal) +
            "; sliced " + answer(kernel.sliced_refusal) + "\n";
    text += "//   parameters";
    for (const ParameterFact& fact : kernel.parameters) {
      text += " " + std::to_string(fact.offset) + "+" + std::to_string(fact.bytes) +
              (fact.is_pointer ? "*" : "");
    }
    text += " of " + std::to_string(kernel.parameter_bytes) + ", launch at " +
            std::to_string(kernel.launch_offset) + ", shared " +
            std::to_string(kernel.static_shared) + "+" + std::to_string(kernel.extra_shared) +
            (kernel.may_wait_on_blocks ? ", may wait on blocks" : "") +
            (kernel.one_dimensional_blocks ? ", blocks of one dimension" : "") + "\n";
  }
  for (const VariableFact& variable : side.variables) {
    text += "// variable " + variable.name + " " + std::to_string(variable.bytes) +
            (variable.is_managed ? " managed" : "") + (variable.is_constant ? " constant" : "") +
            "\n";
  }
  return text;
}

// Of an entry with a worker around it: the body alone, which is in a scope of its own or between labels of the worker.
void KeepBodies(ptx::Module& module) {
  for (auto& item : module.items) {
    auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    ptx::Block kept;
    bool inside = false;
    for (ptx::Statement& statement : function->body->statements) {
      const auto* label = std::get_if<ptx::Label>(&statement.node);
      if (auto* body = std::get_if<ptx::Block>(&statement.node)) {
        kept = ptx::Block(*body);
        break;
      }
      if (label != nullptr && label->name == "$cupola_tail") break;
      if (inside) kept.statements.push_back(statement);
      inside = inside || (label != nullptr && label->name == "$cupola_body");
    }
    function->body = kept;
  }
}

class GoldenSideModule : public testing::TestWithParam<fs::path> {};

TEST_P(GoldenSideModule, IsAsExpected) {
  const std::string text = ReadAll(GetParam());
  const size_t cut = text.find(kSeparator);
  const bool writes = settings::Flag("CUPOLA_REBASE");
  ASSERT_TRUE(cut != text.npos || writes) << "no separator line in " << GetParam();
  const std::string input = text.substr(0, cut);
  const auto module = ptx::Parse(input, "");
  ASSERT_TRUE(module) << module.error().ToString();
  const ptx::Module before = *module;
  auto side = MakeSideModule(*module);
  ASSERT_TRUE(side) << side.error().ToString();
  EXPECT_TRUE(before == *module);
  std::string output = FactsText(*side);
  if (input.find("// body only") != input.npos) KeepBodies(side->module);
  if (input.find("// facts only") == input.npos) output += ptx::Write(side->module);
  if (writes) {
    std::ofstream(GetParam(), std::ios::binary) << input << kSeparator << output;
    return;
  }
  EXPECT_EQ(output, text.substr(cut + kSeparator.size()));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSideModule, testing::ValuesIn(Cases("side")),
                         [](const auto& test) { return test.param.stem().string(); });

class AnySideModule : public testing::TestWithParam<fs::path> {};

TEST_P(AnySideModule, IsValidAndHasItsEntries) {
  const auto module = ptx::Parse(ReadAll(GetParam()), "");
  ASSERT_TRUE(module) << module.error().ToString();
  const auto side = MakeSideModule(*module);
  ASSERT_TRUE(side) << side.error().ToString();
  EXPECT_FALSE(ptx::HasErrors(ptx::Validate(side->module)));
  EXPECT_TRUE(ptx::Parse(ptx::Write(side->module), ""));
  for (const KernelFacts& kernel : side->kernels) {
    const auto has = [&](Variant variant) {
      return side->module.FindFunction(VariantName(kernel.name, variant)) != nullptr;
    };
    EXPECT_EQ(has(Variant::kPreemptible), kernel.preemptible_refusal.empty()) << kernel.name;
    EXPECT_EQ(has(Variant::kSliced), kernel.sliced_refusal.empty()) << kernel.name;
    EXPECT_EQ(side->module.FindFunction(kernel.name), nullptr) << "the original is not in it";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AnySideModule, testing::ValuesIn(Cases("kernels")),
                         [](const auto& test) { return test.param.stem().string(); });

TEST(SideModuleOptionsTest, ChooseKernelsVariantsAndRegisters) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry a() .maxntid 128, 2, 1 .minnctapersm 4\n{\nret;\n}\n"
      ".visible .entry b()\n{\nret;\n}\n",
      "");
  ASSERT_TRUE(module);
  const auto side =
      MakeSideModule(*module, {.kernels = {"a"}, .sliced = false, .max_registers = {{"a", 32}}});
  ASSERT_TRUE(side) << side.error().ToString();
  ASSERT_EQ(side->kernels.size(), 1u);
  EXPECT_EQ(side->kernels[0].max_threads, 256u);
  EXPECT_EQ(side->kernels[0].sliced_refusal, "not asked for");
  const std::string text = ptx::Write(side->module);
  EXPECT_NE(text.find("a__cupola_preemptible"), text.npos);
  EXPECT_NE(text.find(".maxnreg 32"), text.npos);
  EXPECT_EQ(text.find(".minnctapersm"), text.npos);
  EXPECT_EQ(text.find("sliced"), text.npos);
  const auto unknown = MakeSideModule(*module, {.kernels = {"c"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

Result<SideModule> OfKernel(const std::string& head, const std::string& params,
                            const std::string& body) {
  const auto module = ptx::Parse(
      head + "\n.address_size 64\n.visible .entry a(" + params + ")\n{\n" + body + "ret;\n}\n", "");
  EXPECT_TRUE(module);
  return MakeSideModule(*module);
}

TEST(SideModuleHeadTest, IsRaisedToWhatWorkersNeed) {
  const auto old = OfKernel(".version 5.0\n.target sm_52, debug", "", "");
  ASSERT_TRUE(old);
  EXPECT_TRUE(ptx::Write(old->module).starts_with(".version 6.3\n.target sm_70\n"));
  const auto large = OfKernel(".version 7.0\n.target sm_80", ".param .b8 p[4040]", "");
  ASSERT_TRUE(large);
  EXPECT_TRUE(ptx::Write(large->module).starts_with(".version 8.1\n.target sm_80\n"));
  const auto full = OfKernel(".version 8.1\n.target sm_80", ".param .b8 p[32700]", "");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->kernels[0].preemptible_refusal, "parameters fill their block");
  const auto unsynced = OfKernel(".version 5.0\n.target sm_52", "",
                                 ".reg .b32 %r<3>;\nshfl.down.b32 %r0, %r1, 1, 31;\n");
  ASSERT_TRUE(unsynced);
  EXPECT_EQ(unsynced->kernels[0].sliced_refusal, "warp operations without .sync");
}

}  // namespace
}  // namespace cupola::passes
