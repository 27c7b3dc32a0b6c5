// From a PTX module to its side module: for every kernel that can have them, an entry
// `<kernel>__cupola_preemptible` (persistent workers claim the kernel's blocks, and leave at a
// block boundary when told) and an entry `<kernel>__cupola_sliced` (a slice of the grid a launch).
// The words that both sides share are in device/runtime/preempt_control.h; how and why it is right
// is in docs/preemption-passes.md. Pure functions and plain values; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

enum class Variant : uint8_t { kPreemptible, kSliced };

/// The name of a kernel's variant: "<kernel>__cupola_preemptible", "<kernel>__cupola_sliced".
std::string VariantName(std::string_view kernel, Variant variant);

/// The array of addresses of the program's variables in a side module, `.const .b64`.
inline constexpr std::string_view kVariablesName = "cupola_variables";

/// One parameter of the original kernel, in its parameter block, as SideModuleOptions::arch has it.
struct ParameterFact {
  uint32_t offset = 0, bytes = 0;
  bool is_pointer = false;  ///< the PTX says so (.ptr), or loads of its value address global memory
};

struct KernelFacts {
  std::string name;                 ///< of the original, mangled
  std::string preemptible_refusal;  ///< "" = the side module has <name>__cupola_preemptible
  std::string sliced_refusal;       ///< "" = the side module has <name>__cupola_sliced
  std::vector<ParameterFact> parameters;
  uint32_t parameter_bytes = 0;  ///< of the original's parameter block
  uint32_t launch_offset = 0;    ///< of PreemptParams or SliceParams in the variant's block
  /// Blocks may wait on earlier ones (ptx/waits.h): batch 1 and kRunWhatIsClaimed. A launch whose
  /// whole grid is resident at once must then go out plain, for it may be a hand-made grid barrier.
  bool may_wait_on_blocks = false;
  /// The variant is right for blocks of one dimension only (y = z = 1): what it knows of warps
  /// rests on %tid.x alone. Other launches must go out plain.
  bool one_dimensional_blocks = false;
  uint32_t max_threads = 0;    ///< .maxntid or .reqntid, product; 0 = not said
  uint32_t static_shared = 0;  ///< bytes that the PTX of the original declares and names
  uint32_t extra_shared = 0;   ///< bytes that the preemptible variant adds at most
};

/// A variable of the program that the side module reaches by address: entry i of cupola_variables.
struct VariableFact {
  std::string name;
  uint64_t bytes = 0;
  bool is_managed = false;   ///< __managed__
  bool is_constant = false;  ///< __constant__
};

struct SideModuleOptions {
  uint32_t arch = 90;                ///< what the variants are for: 90 for sm_90
  std::vector<std::string> kernels;  ///< whose variants are made; empty: all
  bool preemptible = true, sliced = true;
  /// `.maxnreg` of a kernel's preemptible variant, by name of the kernel; registers per thread.
  /// Takes the place of .minnctapersm, which ptxas does not obey beside it.
  std::map<std::string, uint32_t> max_registers;
};

struct SideModule {
  ptx::Module module;  ///< holds the variants, the functions they reach, and cupola_variables
  std::vector<KernelFacts> kernels;     ///< of every kernel asked for, in the module's order
  std::vector<VariableFact> variables;  ///< empty: the module has no cupola_variables

  bool HasVariants() const {
    for (const KernelFacts& kernel : kernels) {
      if (kernel.preemptible_refusal.empty() || kernel.sliced_refusal.empty()) return true;
    }
    return false;
  }
};

/// Precondition: `original` is a module that ptxas accepts. Effect: none on `original`. Where no
/// kernel can have a variant the side module has no entries; facts and refusals are there.
/// Errors: kNotFound for a name in `options` that is no kernel of the module; kInternal where the
/// result is not valid PTX.
Result<SideModule> MakeSideModule(const ptx::Module& original,
                                  const SideModuleOptions& options = {});

}  // namespace cupola::passes
