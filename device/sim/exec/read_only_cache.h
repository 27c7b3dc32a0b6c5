// The cache of an SM through which `ld.global.nc` and `ldu` read [PTX ISA 9.7.9.9, 9.7.9.11]. Nothing
// keeps it coherent, and it keeps what it holds until the next kernel starts. Here each block has a
// cache of its own, which is empty when the block begins. So a kernel that stays on the GPU while
// others write reads old values through it, as it may on a GPU. Only the thread that runs the block
// uses it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "device/sim/exec/memory.h"

namespace cupola::sim {

class ReadOnlyCache {
 public:
  static constexpr uint64_t kLineBytes = 32;  ///< as a sector of a GPU's cache

  /// The place in the cache of the `bytes` at `address`, which is device memory that may be read. If
  /// the cache does not hold their line, it reads the line first. Null where it cannot hold them: the
  /// bytes span two lines, or the line reaches beyond what may be read.
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
    uint64_t start = 0;  ///< address; 0: the line is empty
    alignas(16) uint8_t bytes[kLineBytes];
  };
  std::array<Line, 128> lines_;
};

}  // namespace cupola::sim
