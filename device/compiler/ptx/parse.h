// Parses PTX text into the IR (ir.h). `cupola build` and `cupola inspect` call it for the PTX of a
// program, the passes for the code that they add, and the simulated device for what it loads. Pure;
// any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Parses one PTX module (PTX ISA 9.0, chapters 4, 5, 6, 10, 11). Trailing NULs are ignored.
/// `name` is used in error locations only. Errors: kDamaged with line and column.
Result<Module> Parse(std::string_view text, std::string_view name);

}  // namespace cupola::ptx
