// A kernel under test and its side module (the module with its variants), and what a program does
// around a launch of either: buffers, parameters, variables, and counting blocks. One thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/passes/preemptible.h"
#include "device/sim/exec/device.h"
#include "device/sim/stepped/memory_model.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::passes {

/// A kernel whose blocks count themselves: its PTX and that of its side module.
struct Subject {
  sim::GoldenKernel golden;
  std::string kernel;    ///< its name
  std::string original;  ///< its PTX, with blocks that count themselves
  std::string side;      ///< PTX of its side module
  KernelFacts facts;
  std::vector<VariableFact> variables;
  /// What the buffers hold after 1, 2... launches of the original: [launch - 1][buffer].
  std::vector<std::vector<std::vector<std::byte>>> expected;
};

/// The files tests/golden/passes/kernels/*.ptx.
std::vector<std::filesystem::path> PassKernelFiles();

/// Reads a golden kernel, makes its side module, and runs the original `launches` times.
Result<Subject> MakeSubject(const std::filesystem::path& path, uint32_t launches = 1);

/// The same for a kernel and its launch that the test has made.
Result<Subject> MakeSubject(sim::GoldenKernel golden, uint32_t launches = 1);

/// Runs the sliced variant slice after slice, each of as many blocks as `slices` says, on SMs chosen by
/// `seed`. Returns what is wrong, "" if nothing is.
std::string RunSlices(const Subject& subject, uint64_t seed, std::span<const uint32_t> slices,
                      const sim::MemoryModelConfig& memory = {});

/// Runs the sliced variant slice after slice, each of 1 to `most` blocks by `seed`. Returns what is
/// wrong, "" if nothing is.
std::string RunSliced(const Subject& subject, uint64_t seed, uint32_t most);

/// Replaces every occurrence, for instance of a line by a bug. Returns how many there were.
size_t Replace(std::string& text, const std::string& before, const std::string& after);

/// Address of a variable and index of a kernel of a loaded module, by name; 0 and ~0u if the module has
/// none of that name.
uint64_t AddressOf(const sim::LoadedModule& module, std::string_view name);
uint32_t KernelIndex(const sim::LoadedModule& module, std::string_view name);

/// Buffers in device memory and the parameters that point to them.
struct Arguments {
  std::vector<uint64_t> buffers;  ///< 0 for scalars
  std::vector<std::byte> params;
};
Arguments PlaceArguments(sim::Device& device, const sim::KernelSpec& spec,
                         const sim::KernelInfo& info);
std::vector<std::vector<std::byte>> ReadBuffers(const sim::KernelSpec& spec,
                                                const Arguments& arguments);

/// Does what the loader does: writes the addresses of the program's variables to cupola_variables.
void FillVariables(const std::vector<VariableFact>& variables, const sim::LoadedModule& original,
                   const sim::LoadedModule& side);

/// Says which block is the first that did not run `launches` times; "" if all did.
std::string WrongCounts(const sim::LoadedModule& original, uint32_t total, uint32_t launches);

}  // namespace cupola::passes
