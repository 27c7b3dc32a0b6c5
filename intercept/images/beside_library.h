// Loads the libraries beside images, fills their variables and finds their kernels. Part of images.cpp, which calls it
// under ImagesMutex; it makes driver calls.
#pragma once

#include <cuda.h>

#include <string>

#include "intercept/images/images.h"
#include "intercept/images/resting_libraries.h"

namespace cupola::intercept {

/// The same as FunctionBeside. The library rests, if it does, in `resting` under `key`.
CUfunction FunctionIn(RestingLibraries* resting, const std::string& key, Image* image, store::ImageKind kind,
                      CUcontext context, CUstream stream, const std::string& name) noexcept;

}  // namespace cupola::intercept
