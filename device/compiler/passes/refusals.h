// Says which variants the kernels of a module can have, and why not, without making any. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// The refusals of one kernel. A refusal is a phrase; "": the variant can be made.
struct KernelRefusals {
  std::string kernel;  ///< mangled name
  std::string preemptible;
  std::string sliced;
  std::string task;
};

/// The refusals of every kernel of the module, in its order: what MakeSideModule would say, at the
/// cost of one analysis of the module. `arch`: as in SideModuleOptions.
std::vector<KernelRefusals> FindRefusals(const ptx::Module& module, uint32_t arch = 90);

}  // namespace cupola::passes
