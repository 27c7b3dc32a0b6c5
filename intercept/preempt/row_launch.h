// Launches a row of blocks of a variant, a one-dimensional grid: a physical launch or a slice.
// Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "intercept/launch/launch_arguments.h"

namespace cupola::intercept::preempt {

/// Everything about the launch except the number of blocks.
struct RowLaunch {
  CUfunction function;
  const uint32_t* block;  ///< three numbers
  uint32_t shared_bytes;
  CUstream stream;
  bool per_thread;  ///< the _ptsz form of the call: stream 0 is the per-thread default stream
  const KeptAttributes& attributes;
  std::byte* arguments;  ///< packed arguments
  size_t bytes;          ///< size of `arguments`
};

/// Makes the launch, by cuLaunchKernel, or by cuLaunchKernelEx if there are attributes. Returns
/// what the driver returned.
CUresult LaunchRow(const RowLaunch& row, uint32_t blocks) noexcept;

}  // namespace cupola::intercept::preempt
