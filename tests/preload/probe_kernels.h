// What the launch scenarios of the probe start from: a context, a module, a library and a stream.
#pragma once

#include "tests/preload/probe.h"

namespace cupola::probe {

struct Kernels {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction function = nullptr;  ///< "named_by_module"
  CUkernel kernel = nullptr;      ///< "named_by_library"
  CUstream stream = nullptr;
};

/// Makes them. They last until the program ends.
Kernels Prepare();

}  // namespace cupola::probe
