// Compares where parameters lie by the machine code with where the passes have put them, since launches of a variant
// rely on it. ptxas aligns a parameter by its absolute place in the constant bank, which no document promises. So the
// places are read from .nv.info of each kernel and never assumed. Internal to the folder; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/passes/preemptible.h"

namespace cupola::build {

/// Why the parameters of the program's own kernel are not known, as a phrase; "": they are as `facts` say, in number,
/// sizes and places. `original` may be null.
std::string CompareOriginal(const fatbin::CubinKernel* original,
                            const std::vector<passes::ParameterFact>& facts);

/// Why a variant cannot be given the original's arguments; "": its first parameters lie where the original's do, and
/// there is one more of `launch_bytes` behind them.
std::string CompareVariant(const fatbin::CubinKernel& original, const fatbin::CubinKernel& variant,
                           uint32_t launch_bytes);

}  // namespace cupola::build
