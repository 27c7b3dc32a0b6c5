// The cache of an SM that `ld.global.nc` and `ldu` read through [PTX ISA 9.7.9.9, 9.7.9.11]: nothing
// keeps it coherent, and what it holds stays until the next kernel starts. Here each block has one of
// its own, empty when the block begins: a kernel that stays on the GPU while others write reads old
// values by it, as on a GPU it may. One thread at a time: that which runs the block.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "device/sim/exec/memory.h"

namespace cupola::sim {

class ReadOnlyCache {
 public:
  static constexpr uint64_t kLineBytes = 32;  ///< a sector of a GPU's

  /// Where the `bytes` at `address`, device memory that may be read, are held; read there first
  /// where they are not. Null where they cannot be: not all of the line may be read.
  const uint8_t* Find(uint64_t address, uint32_t bytes, MemoryView* view) {
    const uint64_t start = address & ~(kLineBytes - 1);
    if (address + bytes > start + kLineBytes) return nullptr;
    Line& line = lines_[start / kLineBytes % lines_.size()];
    if (line.start != start) {
      if (!view->Contains(start, kLineBytes)) return nullptr;
      std::memcpy(line.bytes, reinterpret_cast<const void*>(start), kLineBytes);
      line.start = start;
    }
    return line.bytes + (address - start);
  }

 private:
  struct Line {
    uint64_t start = 0;  ///< 0: holds nothing
    alignas(16) uint8_t bytes[kLineBytes];
  };
  std::array<Line, 128> lines_;
};

}  // namespace cupola::sim
