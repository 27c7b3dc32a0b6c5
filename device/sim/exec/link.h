// Joins the modules of a program that was compiled as several relocatable units (nvcc -rdc=true)
// into one, as a device linker does. Pure; any thread.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::sim {

/// One module with the items of all. A declaration (.extern) gives way to the definition of another
/// unit; of several .weak or .common definitions the first stays; names without linkage that two
/// units use are told apart. Errors: kDamaged where two units define the same visible name.
Result<ptx::Module> LinkModules(std::vector<ptx::Module> modules);

}  // namespace cupola::sim
