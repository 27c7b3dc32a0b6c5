// What `cupola ptx parse` tells of a module. Pure; any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola {

/// Version, targets, functions with their sizes, opcodes that Cupola does not know, for people.
std::string PtxSummary(const ptx::Module& module);

/// The same and the diagnostics as one JSON object.
std::string PtxJson(const ptx::Module& module);

}  // namespace cupola
