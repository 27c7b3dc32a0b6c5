// From a PTX module to its side module. For every kernel that can have them, the side module has an
// entry `<kernel>__cupola_preemptible`, whose persistent workers claim the kernel's blocks and
// leave at a block boundary when told, and an entry `<kernel>__cupola_sliced`, of which each launch
// runs a slice of the grid. `cupola build` calls this (device/compiler/build). The words that host
// and device share are in device/runtime/preempt_control.h; docs/passes.md says how it
// works and why it is right. Pure functions and plain values; any thread may use them.
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

/// The array in a side module that holds the addresses of the program's variables, `.const .b64`.
inline constexpr std::string_view kVariablesName = "cupola_variables";

/// One parameter of the original kernel, as it lies in the parameter block for
/// SideModuleOptions::arch.
struct ParameterFact {
  uint32_t offset = 0;      ///< in bytes
  uint32_t bytes = 0;       ///< size
  bool is_pointer = false;  ///< the PTX says so (.ptr), or loads of its value address global memory
};

/// What is known of one kernel: which variants it has, and what a launch of one must know.
struct KernelFacts {
  std::string name;                 ///< mangled name of the original
  std::string preemptible_refusal;  ///< "": the side module has <name>__cupola_preemptible
  std::string sliced_refusal;       ///< "": the side module has <name>__cupola_sliced
  std::vector<ParameterFact> parameters;
  uint32_t parameter_bytes = 0;  ///< size of the original's parameter block
  uint32_t launch_offset = 0;    ///< offset of PreemptParams or SliceParams in the variant's block
  /// Blocks may wait on earlier ones (ptx/waits.h), so launches need batch 1 and kRunWhatIsClaimed.
  /// A launch whose whole grid is resident at once must go out plain, for it may be a hand-made grid
  /// barrier.
  bool may_wait_on_blocks = false;
  /// The variant is right only for blocks of one dimension (y = z = 1), since what the pass knows
  /// of warps rests on %tid.x alone. Other launches must go out plain.
  bool one_dimensional_blocks = false;
  uint32_t max_threads = 0;    ///< product of .maxntid or .reqntid; 0: the PTX says neither
  uint32_t static_shared = 0;  ///< bytes that the PTX of the original declares and names
  uint32_t extra_shared = 0;   ///< the most bytes that the preemptible variant adds
};

/// A variable of the program that the side module reaches by address: one entry of
/// cupola_variables.
struct VariableFact {
  std::string name;
  uint64_t bytes = 0;
  bool is_managed = false;   ///< __managed__
  bool is_constant = false;  ///< __constant__
};

/// What MakeSideModule is to make.
struct SideModuleOptions {
  uint32_t arch = 90;                ///< architecture that the variants are for: 90 for sm_90
  std::vector<std::string> kernels;  ///< kernels whose variants are made; empty: all
  bool preemptible = true;           ///< make preemptible variants
  bool sliced = true;                ///< make sliced variants
  /// `.maxnreg` of a kernel's preemptible variant, in registers per thread, by name of the kernel.
  /// It replaces .minnctapersm, which ptxas does not obey beside it.
  std::map<std::string, uint32_t> max_registers;
};

struct SideModule {
  ptx::Module module;  ///< holds the variants, the functions they reach, and cupola_variables
  std::vector<KernelFacts> kernels;     ///< for every kernel asked for, in the module's order
  std::vector<VariableFact> variables;  ///< empty: the module has no cupola_variables

  bool HasVariants() const {
    for (const KernelFacts& kernel : kernels) {
      if (kernel.preemptible_refusal.empty() || kernel.sliced_refusal.empty()) return true;
    }
    return false;
  }
};

/// Precondition: `original` is a module that ptxas accepts. Effect: none on `original`. Where no
/// kernel can have a variant, the side module has no entries, but facts and refusals are there.
/// Errors: kNotFound for a name in `options` that is no kernel of the module; kInternal where the
/// result is not valid PTX.
Result<SideModule> MakeSideModule(const ptx::Module& original,
                                  const SideModuleOptions& options = {});

}  // namespace cupola::passes
