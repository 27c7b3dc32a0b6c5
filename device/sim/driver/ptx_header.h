// Checks the head of a PTX text, at which the driver's compiler looks first: .version, .target and .address_size. A
// pure function, called by LoadModule from any thread.
#pragma once

#include <string_view>

#include "device/sim/driver/module.h"

namespace cupola::sim {

/// Answers as the driver of CUDA 13.0 does on a device of compute capability 9.0 (seen on an H100):
/// CUDA_ERROR_UNSUPPORTED_PTX_VERSION for a version that it does not know; CUDA_ERROR_INVALID_PTX for an incomplete
/// head, for a target that does not exist or is later than the device or than the version, and for 32-bit addresses;
/// CUDA_ERROR_INVALID_IMAGE for what does not begin as PTX; else CUDA_SUCCESS. The rest of the text is for the parser.
LoadFailure CheckPtxHeader(std::string_view text);

}  // namespace cupola::sim
