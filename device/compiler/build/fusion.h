// Decides whether PTX leaves the compiler a choice of rounding. A mul and an add without rounding modifiers, where the
// result of one is an operand of the other, may become one fma with one rounding less [9.7.3.1, 9.7.3.3]. Everything
// else that PTX says about floating point fixes the bits on a given architecture. Pure; any thread.
#pragma once

#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::build {

/// Whether the kernel, or a function that it may reach, has such a pair. The answer is never wrongly "no": values that
/// go through memory, calls and branches count as reaching all places.
bool MayBeFused(const ptx::Module& module, std::string_view kernel);

/// Gives each such mul, add and sub of the function the modifier that rounds to nearest. It rounds so anyway where the
/// compiler does not fuse it [9.7.3], so what is made of the function afterwards is not fused either. Returns whether
/// there was any.
bool PinRounding(ptx::Function& function);

}  // namespace cupola::build
