// Golden cases of the PTX stages: tests/golden/ptx/<stage>/<case>.ptx holds the input, the line
// "// %%% output %%%" and the expectation. CUPOLA_REBASE=1 writes what the stages give instead.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/settings/variables.h"
#include "device/compiler/ptx/dump.h"
#include "device/compiler/ptx/features.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"
#include "tests/paths.h"

namespace cupola::ptx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeparator = "// %%% output %%%\n";

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Cases() {
  const fs::path root = fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/ptx";
  std::vector<std::string> cases;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".ptx") cases.push_back(fs::relative(entry.path(), root));
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

// Why each kernel may wait for others, as features have it.
std::string WaitsOf(const Module& module) {
  std::string text;
  for (const KernelFeatures& kernel : AnalyzeKernels(module)) {
    text += kernel.kernel + ": ";
    const auto note = std::find_if(kernel.notes.begin(), kernel.notes.end(), [](const auto& each) {
      return each.feature == Feature::kMayWait;
    });
    text += (note == kernel.notes.end() ? "does not wait" : note->detail) + "\n";
  }
  return text;
}

std::string RunStage(const std::string& stage, const std::string& input) {
  const Result<Module> module = Parse(input, "");
  if (stage == "diagnostics") {
    return module ? "parses\n" : module.error().ToString() + "\n";
  }
  if (!module) return "unexpected: " + module.error().ToString() + "\n";
  if (stage == "parse") return Dump(*module);
  if (stage == "write") return Write(*module);
  if (stage == "waits") return WaitsOf(*module);
  std::string text;
  for (const Diagnostic& diagnostic : Validate(*module)) text += diagnostic.ToString("") + "\n";
  return text.empty() ? "valid\n" : text;
}

class GoldenPtx : public testing::TestWithParam<std::string> {};

TEST_P(GoldenPtx, StageGivesTheExpectation) {
  const fs::path path = fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/ptx" / GetParam();
  const std::string text = ReadAll(path);
  const size_t cut = text.find(kSeparator);
  const bool writes = settings::Flag("CUPOLA_REBASE");
  ASSERT_TRUE(cut != std::string::npos || writes) << "no separator line in " << path;
  const std::string input = text.substr(0, cut);
  const std::string output = RunStage(path.parent_path().filename(), input);
  if (writes) {
    std::ofstream(path, std::ios::binary) << input << kSeparator << output;
    return;
  }
  EXPECT_EQ(output, text.substr(cut + kSeparator.size()));
}

TEST_P(GoldenPtx, SurvivesWritingAndParsingAgain) {
  const fs::path path = fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/ptx" / GetParam();
  const std::string text = ReadAll(path);
  const Result<Module> first = Parse(text.substr(0, text.find(kSeparator)), "");
  if (!first) return;  // a case of the stage diagnostics
  const std::string written = Write(*first);
  const Result<Module> second = Parse(written, "");
  ASSERT_TRUE(second.ok()) << second.error().ToString() << "\n" << written;
  EXPECT_TRUE(*second == *first) << Dump(*first) << "---\n" << Dump(*second);
  EXPECT_EQ(Write(*second), written);
}

// Kernels of the stage waits say by their names what is right: an expectation that was rewritten
// without being read is found.
TEST(GoldenWaits, KernelsDoWhatTheirNamesSay) {
  int kernels = 0;
  for (const std::string& name : Cases()) {
    if (!name.starts_with("waits/")) continue;
    const std::string text = ReadAll(fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/ptx" / name);
    const Result<Module> module = Parse(text.substr(0, text.find(kSeparator)), name);
    ASSERT_TRUE(module.ok()) << module.error().ToString();
    for (const KernelFeatures& kernel : AnalyzeKernels(*module)) {
      const size_t at = std::min(kernel.kernel.find("Waits"), kernel.kernel.find("Ends"));
      if (at == std::string::npos) continue;
      ++kernels;
      EXPECT_EQ(kernel.Has(Feature::kMayWait), kernel.kernel[at] == 'W')
          << name << ": " << kernel.kernel;
    }
  }
  EXPECT_GE(kernels, 140);
}

std::string CaseName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPtx, testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace cupola::ptx
