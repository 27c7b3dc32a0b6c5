// Computes how many blocks of a kernel fit on an SM: the arithmetic of
// cuOccupancyMaxActiveBlocksPerMultiprocessor without a driver. Limits: CUDA C++ Programming Guide
// 13.0, table "Technical Specifications per Compute Capability". Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace cupola::build {

/// What a block of a kernel needs.
struct BlockNeeds {
  uint32_t threads = 256;     ///< number of threads
  uint32_t registers = 0;     ///< per thread, as the cubin says
  uint64_t shared_bytes = 0;  ///< static and dynamic, per block, without what the system reserves
};

struct Occupancy {
  uint32_t blocks = 0;     ///< resident on an SM
  uint32_t warps = 0;      ///< resident on an SM
  uint32_t max_warps = 0;  ///< the most that an SM can hold

  double fraction() const { return max_warps == 0 ? 0 : static_cast<double>(warps) / max_warps; }
};

/// Occupancy on a GPU of compute capability `arch` (90 for 9.0). Later and unknown ones count as
/// 9.0.
Occupancy OccupancyOf(const BlockNeeds& needs, uint32_t arch);

/// The most registers per thread, a multiple of 8, with which `blocks` blocks fit on an SM. The
/// other needs of a block are those of `needs`.
uint32_t RegistersForBlocks(const BlockNeeds& needs, uint32_t blocks, uint32_t arch);

/// The registers per thread to which a variant must be bound so that as many of its blocks fit on an SM as of the
/// original's, but not fewer than the original has. None: the variant needs no bound, or it is within it already.
std::optional<uint32_t> RegisterBound(const BlockNeeds& original, const BlockNeeds& variant, uint32_t arch);

}  // namespace cupola::build
