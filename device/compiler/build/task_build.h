// Builds a module's kernels as tasks: compiles its MasterKernel, and says which kernels cannot be tasks. Internal to
// the folder; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compiler/build/code.h"
#include "device/compiler/passes/task_module.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::build {

struct TaskBuild {
  std::map<std::string, passes::TaskFacts> kernels;  ///< kernels that are tasks, by name
  std::map<std::string, std::string> refusals;       ///< why others are not, by name
  std::set<std::string> inexact;                     ///< those of `kernels` whose bits may differ
  std::vector<passes::VariableFact> variables;
  std::vector<uint8_t> cubin;  ///< empty where no kernel is a task
  std::string ptx;
  uint32_t registers = 0;  ///< of a thread of the MasterKernel
};

/// Compiles PTX and reads the code.
using CompilePtx = std::function<Result<Code>(const std::string& ptx)>;

/// Builds the tasks. `original` is the code that the program runs: it says how many registers its kernels need, and
/// where their parameters lie. `arch` is the architecture to build for. Errors: those of the pass.
Result<TaskBuild> BuildTasks(const ptx::Module& module, const std::vector<std::string>& wanted,
                             const Code& original, uint32_t arch, const CompilePtx& compile);

}  // namespace cupola::build
