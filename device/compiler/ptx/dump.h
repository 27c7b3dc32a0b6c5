// Prints the IR as an indented outline, one node a line, to show what the parser understood. Pure;
// any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Every field of every node that is not at its default, without source positions. For people and
/// golden tests; it cannot be parsed back.
std::string Dump(const Module& module);

}  // namespace cupola::ptx
