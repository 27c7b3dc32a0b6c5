// From a PTX module to its task module: for every kernel that can be a task a function
// `<kernel>__cupola_task`, and a MasterKernel that calls them by number. Pagoda, section 4;
// docs/narrow-tasks.md says how and why it is right. Pure functions and plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// The entry of a task module.
inline constexpr std::string_view kMasterName = "cupola_master_kernel";

struct TaskFacts {
  std::string name;            ///< of the kernel, mangled
  std::string refusal;         ///< why it cannot be a task: one phrase; "" = it can
  uint32_t body = 0;           ///< TaskHeader::body, where it can
  uint32_t static_shared = 0;  ///< bytes; dynamic shared memory is behind them
  bool uses_barrier = false;   ///< threads of a block wait for each other
  /// Where the body reads them in the record, from the begin of the kernel's parameters.
  std::vector<ParameterFact> parameters;
};

struct TaskModuleOptions {
  uint32_t arch = 90;                ///< as in SideModuleOptions
  std::vector<std::string> kernels;  ///< that may be tasks; empty: all
  /// Of a thread of the MasterKernel: 32, 64 or 128 (runtime::MtbThreads).
  uint32_t registers = 32;
  /// Which of kHoldable values the caller of a body keeps meanwhile, a bit each: what a body
  /// computes is the same, the registers that it is left are others.
  uint32_t held = 0;
};
inline constexpr uint32_t kHoldable = 5;

struct TaskModule {
  ptx::Module module;                   ///< no entry where no kernel can be a task
  std::vector<TaskFacts> kernels;       ///< of every kernel asked for, in the module's order
  std::vector<VariableFact> variables;  ///< empty: the module has no cupola_variables

  bool HasTasks() const {
    for (const TaskFacts& kernel : kernels) {
      if (kernel.refusal.empty()) return true;
    }
    return false;
  }
};

/// Precondition: `original` is a module that ptxas accepts, `master` the MasterKernel without
/// bodies (device/runtime/master_image.h). Effect: none on either. Errors: kNotFound for a name in
/// `options` that is no kernel of the module; kInternal where the result is not valid PTX.
Result<TaskModule> MakeTaskModule(const ptx::Module& original, const ptx::Module& master,
                                  const TaskModuleOptions& options = {});

}  // namespace cupola::passes
