// Golden kernels: tests/golden/sim/*.ptx, each with its launch and what its buffers must hold
// afterwards, what it prints or how it fails in comments. The expectations follow the PTX ISA and
// hold on a GPU too (tests/gpu/golden_kernels.py); tests/golden/sim_reference computes them.
// CUPOLA_REBASE=1 rewrites them from what the interpreter does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "device/sim/exec/kernel_spec.h"

namespace cupola::sim {
namespace {

constexpr std::string_view kMarker = "// %%% output %%%";

struct Golden {
  std::filesystem::path path;
  std::string input;     // up to the marker
  std::string expected;  // behind it
};

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(CUPOLA_SOURCE_DIR "/tests/golden/sim")) {
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// "// launch: grid=2 block=32 shared=64 cooperative=1" and "// arg: buf:u32:4=7".
Result<KernelSpec> ReadSpec(const std::string& input) {
  KernelSpec spec;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string slashes, keyword, word;
    words >> slashes >> keyword;
    if (slashes != "//") continue;
    while (keyword == "launch:" && words >> word) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      if (key == "grid" || key == "block") {
        auto dim = ParseDim3(value);
        if (!dim) return dim.error();
        (key == "grid" ? spec.grid : spec.block) = *dim;
      } else if (key == "shared") {
        spec.dynamic_shared_bytes = static_cast<uint32_t>(std::stoul(value));
      } else if (key == "cooperative") {
        spec.cooperative = value == "1";
      } else if (key == "kernel") {
        spec.kernel = value;
      } else {
        return MakeError(ErrorCode::kInvalidArgument, "unknown launch word " + word);
      }
    }
    if (keyword == "arg:" && words >> word) {
      auto arg = ParseArg(word);
      if (!arg) return arg.error();
      spec.args.push_back(std::move(*arg));
    }
  }
  return spec;
}

const char* FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kIllegalAddress:
      return "illegal_address";
    case FaultKind::kMisalignedAddress:
      return "misaligned_address";
    case FaultKind::kIllegalInstruction:
      return "illegal_instruction";
    case FaultKind::kTrap:
      return "trap";
    case FaultKind::kAssert:
      return "assert";
    case FaultKind::kUnsupported:
      return "unsupported";
  }
  return "?";
}

std::string Output(const KernelSpec& spec, const std::string& printed) {
  std::string text;
  // A GPU's memory is out of reach after a fault, so that buffers are no part of one.
  if (spec.fault) return std::string("// fault: ") + FaultName(*spec.fault) + "\n";
  for (size_t i = 0; i < spec.args.size(); ++i) {
    const ArgSpec& arg = spec.args[i];
    if (!arg.is_buffer) continue;
    const uint64_t count = arg.bytes.size() / TypeBytes(arg.type);
    for (uint64_t at = 0; at < count; at += 8) {
      text += "// " + std::to_string(i) + "[" + std::to_string(at) + "]: " +
              FormatValues(arg.type, arg.bytes.data() + at * TypeBytes(arg.type),
                           std::min<uint64_t>(8, count - at)) +
              "\n";
    }
  }
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) text += "// printed: " + line + "\n";
  return text;
}

class GoldenKernelTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenKernelTest, MatchesItsExpectation) {
  std::ifstream file(GetParam());
  std::stringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  const size_t marker = text.find(kMarker);
  const std::string input = text.substr(0, marker);
  auto spec = ReadSpec(input);
  ASSERT_TRUE(spec) << spec.error().ToString();
  auto device = Device::Create({});
  testing::internal::CaptureStdout();
  const Status status = RunKernel(*device, input, GetParam().filename().string(), &*spec);
  const std::string output = Output(*spec, testing::internal::GetCapturedStdout());
  ASSERT_TRUE(status || spec->fault) << status.error().ToString();
  if (!status) std::cerr << status.error().ToString() << "\n";
  if (std::getenv("CUPOLA_REBASE") != nullptr) {
    std::ofstream(GetParam()) << input << kMarker << "\n" << output;
    return;
  }
  ASSERT_NE(marker, std::string::npos) << "no expectation in " << GetParam();
  EXPECT_EQ(output, text.substr(marker + kMarker.size() + 1));
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKernelTest, testing::ValuesIn(Files()),
                         [](const testing::TestParamInfo<std::filesystem::path>& file) {
                           return file.param.stem().string();
                         });

}  // namespace
}  // namespace cupola::sim
