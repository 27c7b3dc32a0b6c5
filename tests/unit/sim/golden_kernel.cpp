#include "tests/paths.h"
#include "tests/unit/sim/golden_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

namespace cupola::sim {
namespace {

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

}  // namespace

std::vector<std::filesystem::path> PtxFilesIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::filesystem::path> GoldenKernelFiles() {
  return PtxFilesIn(std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/sim");
}

Result<GoldenKernel> ReadGoldenKernel(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  const size_t marker = text.find(kGoldenMarker);
  GoldenKernel kernel;
  kernel.name = path.filename().string();
  kernel.input = text.substr(0, marker);
  if (marker != std::string::npos) kernel.expected = text.substr(marker + kGoldenMarker.size() + 1);
  auto spec = ReadSpec(kernel.input);
  if (!spec) return spec.error();
  kernel.spec = std::move(*spec);
  return kernel;
}

Status RunGoldenKernel(Device& device, GoldenKernel* kernel, std::string* output) {
  testing::internal::CaptureStdout();
  const Status status = RunKernel(device, kernel->input, kernel->name, &kernel->spec);
  *output = Output(kernel->spec, testing::internal::GetCapturedStdout());
  if (!status && !kernel->spec.fault) return status;
  if (!status) std::cerr << status.error().ToString() << "\n";
  return {};
}

}  // namespace cupola::sim
