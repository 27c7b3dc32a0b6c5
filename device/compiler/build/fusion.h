// Whether PTX leaves the compiler a choice of rounding: a mul and an add without rounding
// modifiers, the one's result an operand of the other, may become one fma with one rounding less
// [9.7.3.1, 9.7.3.3]. Everything else that PTX says of floating point fixes its bits on a given
// architecture. Pure; any thread.
#pragma once

#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::build {

/// Whether the kernel, or a function that it may reach, has such a pair. Never "no" where there is
/// one: what flows through memory, calls and branches counts as flowing.
bool MayBeFused(const ptx::Module& module, std::string_view kernel);

/// Says of each such mul, add and sub of the function that it rounds to nearest, as it does where the
/// compiler fuses it with no other [9.7.3]: what is made of the function afterwards is not fused
/// either. Whether there was any.
bool PinRounding(ptx::Function& function);

}  // namespace cupola::build
