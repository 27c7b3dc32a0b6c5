// Launching a row of blocks of a variant: a physical launch, or a slice. Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "intercept/preempt/launch_arguments.h"

namespace cupola::intercept::preempt {

/// All but the number of blocks.
struct RowLaunch {
  CUfunction function;
  const uint32_t* block;  ///< three numbers
  uint32_t shared_bytes;
  CUstream stream;
  bool per_thread;  ///< the form whose stream 0 is the per-thread default stream
  const KeptAttributes& attributes;
  std::byte* arguments;  ///< packed, `bytes` of them
  size_t bytes;
};

/// cuLaunchKernel, or cuLaunchKernelEx where there are attributes; what the driver said.
CUresult LaunchRow(const RowLaunch& row, uint32_t blocks) noexcept;

}  // namespace cupola::intercept::preempt
