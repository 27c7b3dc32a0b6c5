// A kernel under test and its side module, and what a program does around a launch of either:
// buffers, parameters, variables, blocks that are counted. One thread.
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
  std::string kernel;    ///< name
  std::string original;  ///< PTX, counting blocks
  std::string side;      ///< PTX of its side module
  KernelFacts facts;
  std::vector<VariableFact> variables;
  /// What the buffers hold after 1, 2... launches of the original: [launch - 1][buffer].
  std::vector<std::vector<std::vector<std::byte>>> expected;
};

/// tests/golden/passes/kernels/*.ptx.
std::vector<std::filesystem::path> PassKernelFiles();

/// Reads tests/golden/... `path`, makes its side module, runs the original `launches` times.
Result<Subject> MakeSubject(const std::filesystem::path& path, uint32_t launches = 1);

/// The same of a kernel and a launch of it that are made, not read.
Result<Subject> MakeSubject(sim::GoldenKernel golden, uint32_t launches = 1);

/// Runs the sliced variant slice after slice, of so many blocks each, on any SMs by `seed`. What is
/// wrong, "" if nothing is.
std::string RunSlices(const Subject& subject, uint64_t seed, std::span<const uint32_t> slices,
                      const sim::MemoryModelConfig& memory = {});

/// Runs the sliced variant slice after slice, each of 1 to `most` blocks by `seed`. What is wrong,
/// "" if nothing is.
std::string RunSliced(const Subject& subject, uint64_t seed, uint32_t most);

/// Replaces every occurrence, as of a line by a bug; the number of them.
size_t Replace(std::string& text, const std::string& before, const std::string& after);

/// Of a loaded module, by name; 0 or ~0u where it has none.
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

/// What the loader does: cupola_variables holds where the program's variables are.
void FillVariables(const std::vector<VariableFact>& variables, const sim::LoadedModule& original,
                   const sim::LoadedModule& side);

/// The first block that did not run `launches` times, in words; "" where all did.
std::string WrongCounts(const sim::LoadedModule& original, uint32_t total, uint32_t launches);

}  // namespace cupola::passes
