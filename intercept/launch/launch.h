// Launch: one launch call of the program, as the hook of the call describes it: what is launched, on which stream, and
// with which arguments and attributes. The hook fills it on the launching thread's stack, where it lives as long as the
// call. Every form that the launch may take reads it; nobody changes it. What is found out about a launch on its way
// (its form, its expected time) is kept by the code that finds it out, not here.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "profiles/launch_record.h"

namespace cupola::intercept {

struct Launch {
  const void* function = nullptr;  ///< CUfunction or CUkernel; null for a graph
  CUstream stream = nullptr;
  bool per_thread = false;         ///< the call is the _ptsz form: stream 0 is the per-thread default stream
  uint32_t grid[3] = {};           ///< blocks, as x, y, z
  uint32_t block[3] = {};          ///< threads of a block, as x, y, z
  uint32_t shared_bytes = 0;       ///< dynamic shared memory of a block
  CUgraphExec graph = nullptr;     ///< null for a kernel
  uint32_t kernel_nodes = 0;       ///< number of kernel nodes of a graph
  uint16_t flags = 0;              ///< LaunchFlag
  LaunchDoor door = LaunchDoor::kLaunchKernel;
  void** params = nullptr;         ///< kernelParams of the call
  void** extra = nullptr;          ///< extra of the call
  const CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// The driver call that the program asked for, exactly as it made it: `make(data)`. It is made at most once.
struct ProgramCall {
  CUresult (*make)(void* data) = nullptr;
  void* data = nullptr;

  CUresult operator()() const { return make(data); }
};

}  // namespace cupola::intercept
