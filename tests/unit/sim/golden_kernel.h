// Reads and runs golden kernels: tests/golden/sim/*.ptx. Comments in each say how it is launched and
// what its buffers must hold afterwards, what it prints, or how it fails. One thread, since standard
// output is captured.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/sim/exec/kernel_spec.h"

namespace cupola::sim {

struct GoldenKernel {
  std::string name;      ///< of the file
  std::string input;     ///< the text up to the marker
  std::string expected;  ///< the text behind the marker; empty: there is no marker
  KernelSpec spec;
};

constexpr std::string_view kGoldenMarker = "// %%% output %%%";

std::vector<std::filesystem::path> GoldenKernelFiles();

/// The PTX files of a folder, in the order of their names.
std::vector<std::filesystem::path> PtxFilesIn(const std::filesystem::path& folder);

/// Reads a file. Its text has lines such as "// launch: grid=2 block=32 shared=64 cooperative=1" and
/// "// arg: buf:u32:4=7". Errors: kInvalidArgument.
Result<GoldenKernel> ReadGoldenKernel(const std::filesystem::path& path);

/// Runs the kernel and sets `*output` to what the file should say behind the marker. Errors: those of
/// RunKernel except faults, which are part of the output.
Status RunGoldenKernel(Device& device, GoldenKernel* kernel, std::string* output);

}  // namespace cupola::sim
