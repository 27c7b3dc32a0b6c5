// Reading golden kernels: tests/golden/sim/*.ptx, each with its launch and what its buffers must
// hold afterwards, what it prints or how it fails in comments. One thread (standard output is
// captured).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/sim/exec/kernel_spec.h"

namespace cupola::sim {

struct GoldenKernel {
  std::string name;      ///< of the file
  std::string input;     ///< up to the marker
  std::string expected;  ///< behind it; empty: there is no marker
  KernelSpec spec;
};

constexpr std::string_view kGoldenMarker = "// %%% output %%%";

std::vector<std::filesystem::path> GoldenKernelFiles();

/// The PTX files of a folder, in order.
std::vector<std::filesystem::path> PtxFilesIn(const std::filesystem::path& folder);

/// "// launch: grid=2 block=32 shared=64 cooperative=1" and "// arg: buf:u32:4=7" in the text.
/// Errors: kInvalidArgument.
Result<GoldenKernel> ReadGoldenKernel(const std::filesystem::path& path);

/// Runs it; *output is what the file should say behind the marker. Errors: those of RunKernel, but
/// for faults, which are output.
Status RunGoldenKernel(Device& device, GoldenKernel* kernel, std::string* output);

}  // namespace cupola::sim
