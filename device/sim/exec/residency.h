// How many blocks an SM has room for, by its limits of blocks, threads and shared memory. Free and
// stepped mode count with it. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/sim/exec/state.h"

namespace cupola::sim {

/// Resources that blocks need, or that are in use on an SM.
struct Residency {
  uint32_t blocks = 0;
  uint32_t threads = 0;  ///< in whole warps
  uint32_t shared_bytes = 0;

  void Add(const Residency& other) {
    blocks += other.blocks;
    threads += other.threads;
    shared_bytes += other.shared_bytes;
  }
  void Remove(const Residency& other) {
    blocks -= other.blocks;
    threads -= other.threads;
    shared_bytes -= other.shared_bytes;
  }
};

/// Bytes reserved in every block, as on sm_80 and later.
constexpr uint32_t kReservedShared = 1024;

inline Residency BlockResidency(uint32_t threads, uint32_t shared_bytes) {
  return {1, (threads + kLanes - 1) / kLanes * kLanes, shared_bytes + kReservedShared};
}

inline Residency BlockResidency(const Grid& grid) {
  return BlockResidency(
      grid.block.x * grid.block.y * grid.block.z,
      grid.program->functions[grid.function].dynamic_shared_at + grid.dynamic_shared_bytes);
}

inline bool Fits(const DeviceConfig& config, Residency used, const Residency& more) {
  used.Add(more);
  return used.blocks <= config.max_blocks_per_sm && used.threads <= config.max_threads_per_sm &&
         used.shared_bytes <= config.shared_bytes_per_sm;
}

/// The number of blocks of this shape that fit on one SM; 0 when not even one may run.
inline uint32_t MaxResidentBlocks(const DeviceConfig& config, uint32_t threads,
                                  uint32_t shared_bytes) {
  if (threads == 0 || threads > 1024 || shared_bytes > config.max_shared_bytes_per_block) return 0;
  const Residency one = BlockResidency(threads, shared_bytes);
  return std::min({config.max_blocks_per_sm, config.max_threads_per_sm / one.threads,
                   config.shared_bytes_per_sm / one.shared_bytes});
}

/// The block with this linear number, x fastest.
inline Dim3 BlockIndex(const Dim3& shape, uint64_t number) {
  return {static_cast<uint32_t>(number % shape.x),
          static_cast<uint32_t>(number / shape.x % shape.y),
          static_cast<uint32_t>(number / shape.x / shape.y)};
}

}  // namespace cupola::sim
