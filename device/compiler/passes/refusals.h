// Which variants the kernels of a module can have, and why not, without making any. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// One kernel; a refusal is a phrase, "" = the variant can be made.
struct KernelRefusals {
  std::string kernel;  ///< mangled
  std::string preemptible, sliced;
};

/// For every kernel of the module, in its order. What MakeSideModule would say of it, at the cost
/// of one analysis of the module. `arch`: as in SideModuleOptions.
std::vector<KernelRefusals> FindRefusals(const ptx::Module& module, uint32_t arch = 90);

}  // namespace cupola::passes
