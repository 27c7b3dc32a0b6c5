// The text that `cupola ptx parse` prints about a module. Pure functions; any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola {

/// For people: version, targets, functions with their sizes, and opcodes that Cupola does not know.
std::string PtxSummary(const ptx::Module& module);

/// For programs: the same, and the diagnostics, as one JSON object.
std::string PtxJson(const ptx::Module& module);

}  // namespace cupola
