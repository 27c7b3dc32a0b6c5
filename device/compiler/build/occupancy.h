// How many blocks of a kernel fit on an SM: the arithmetic of
// cuOccupancyMaxActiveBlocksPerMultiprocessor without a driver. Limits: CUDA C++ Programming
// Guide 13.0, table "Technical Specifications per Compute Capability". Pure; any thread.
#pragma once

#include <cstdint>

namespace cupola::build {

/// What a block of a kernel needs.
struct BlockNeeds {
  uint32_t threads = 256;     ///< of a block
  uint32_t registers = 0;     ///< per thread, as the cubin says
  uint64_t shared_bytes = 0;  ///< static and dynamic, per block, without the system's own
};

struct Occupancy {
  uint32_t blocks = 0;  ///< resident on an SM
  uint32_t warps = 0;   ///< resident on an SM
  uint32_t max_warps = 0;

  double fraction() const { return max_warps == 0 ? 0 : static_cast<double>(warps) / max_warps; }
};

/// Occupancy on a GPU of compute capability `arch` (90 = 9.0); later and unknown ones as 9.0.
Occupancy OccupancyOf(const BlockNeeds& needs, uint32_t arch);

/// Most registers per thread, a multiple of 8, at which as many blocks fit as with `needs`; for
/// kernels with other `shared_bytes`, give those.
uint32_t RegistersForBlocks(const BlockNeeds& needs, uint32_t blocks, uint32_t arch);

}  // namespace cupola::build
