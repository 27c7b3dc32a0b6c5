// What the driver's compiler looks at before all else of a PTX text: its version, its target, its address size. Pure.
#pragma once

#include <string_view>

#include "device/sim/driver/module.h"

namespace cupola::sim {

/// The answer of the driver of CUDA 13.0 on a device of compute capability 9.0 to the head of a text, as an H100
/// gave it: CUDA_ERROR_UNSUPPORTED_PTX_VERSION for a version that it does not know, CUDA_ERROR_INVALID_PTX for a
/// head that is not complete, a target that does not exist, is later than the device or than the version, and for
/// 32-bit addresses, CUDA_ERROR_INVALID_IMAGE for what does not begin as PTX. Else CUDA_SUCCESS: the rest is for
/// the parser.
LoadFailure CheckPtxHeader(std::string_view text);

}  // namespace cupola::sim
