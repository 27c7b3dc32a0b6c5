// Links the modules of a program that was compiled as several relocatable units (nvcc -rdc=true)
// into one, as a device linker does. Pure function; any thread.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::sim {

/// Makes one module of the items of all. The definition of a name replaces its declarations
/// (.extern). Of several .weak or .common definitions the first stays. A name without linkage that
/// two units use gets a different name in each. Errors: kDamaged where two units define the same
/// visible name.
Result<ptx::Module> LinkModules(std::vector<ptx::Module> modules);

}  // namespace cupola::sim
