// From a PTX module to its task module. For every kernel that can be a task, the task module has a
// function `<kernel>__cupola_task`, and a MasterKernel that calls these by number. `cupola build`
// calls this (build/task_build.h). Pagoda, section 4; docs/masterkernel.md says how it works and
// why it is right. Pure functions and plain values; any thread may use them.
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

/// What is known of one kernel as a task.
struct TaskFacts {
  std::string name;            ///< mangled name of the kernel
  std::string refusal;         ///< why it cannot be a task, a phrase; "": it can
  uint32_t body = 0;           ///< TaskHeader::body, where it can be a task
  uint32_t static_shared = 0;  ///< bytes of static shared memory; dynamic memory lies behind it
  bool uses_barrier = false;   ///< threads of a block wait for each other
  /// Where the body reads the parameters in the record, relative to the first parameter.
  std::vector<ParameterFact> parameters;
};

struct TaskModuleOptions {
  uint32_t arch = 90;                ///< as in SideModuleOptions
  std::vector<std::string> kernels;  ///< kernels that may be tasks; empty: all
  /// Number of registers of a thread of the MasterKernel: 32, 64 or 128 (runtime::MtbThreads).
  uint32_t registers = 32;
  /// A bit for each of the kHoldable values that the caller of a body keeps in a register during the
  /// call. It does not change what a body computes, only which registers ptxas leaves to it.
  uint32_t held = 0;
};
inline constexpr uint32_t kHoldable = 5;

struct TaskModule {
  ptx::Module module;                   ///< no entry where no kernel can be a task
  std::vector<TaskFacts> kernels;       ///< for every kernel asked for, in the module's order
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
