// Where parameters lie by the machine code, compared with where the passes have put them: what the
// launches of a variant rest on. ptxas aligns a parameter by its absolute place in the constant bank,
// which is its own business: so it is read (.nv.info of each kernel), never taken for granted.
// Internal to the folder; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/passes/preemptible.h"

namespace cupola::build {

/// Why the parameters of the program's own kernel are not known: "" = they are as `facts` say, in
/// number, sizes and places; else one phrase. `original` may be null.
std::string CompareOriginal(const fatbin::CubinKernel* original,
                            const std::vector<passes::ParameterFact>& facts);

/// Why a variant cannot be given the original's arguments: "" = its first parameters lie where the
/// original's do, and there is one more of `launch_bytes` behind them.
std::string CompareVariant(const fatbin::CubinKernel& original, const fatbin::CubinKernel& variant,
                           uint32_t launch_bytes);

}  // namespace cupola::build
