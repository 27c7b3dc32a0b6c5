// The limits that every CUDA device has on the grid and blocks of a launch (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"). The driver refuses launches that exceed them or are
// empty. Tasks, batches and guarded launches look here before they take a launch in the driver's place, so that its
// errors stay the driver's. Pure functions; any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {

/// `grid`: blocks in x, y, z.
inline bool GridIsAllowed(const uint32_t (&grid)[3]) noexcept {
  constexpr uint32_t kMostX = 0x7FFFFFFF, kMostYZ = 65'535;
  return grid[0] - 1 < kMostX && grid[1] - 1 < kMostYZ && grid[2] - 1 < kMostYZ;
}

/// `block`: threads in x, y, z.
inline bool BlockIsAllowed(const uint32_t (&block)[3]) noexcept {
  constexpr uint32_t kMostXY = 1024, kMostZ = 64, kMostThreads = 1024;
  return block[0] - 1 < kMostXY && block[1] - 1 < kMostXY && block[2] - 1 < kMostZ &&
         uint64_t{block[0]} * block[1] * block[2] <= kMostThreads;
}

}  // namespace cupola::intercept
