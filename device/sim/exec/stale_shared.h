// The contents of shared memory when a block begins. On a GPU that is what an earlier block left
// there, and this class imitates it. With zeros, a kernel that reads shared memory before it writes it
// would work here and fail on a GPU. Each device has one; any thread may use it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace cupola::sim {

class StaleShared {
 public:
  StaleShared() { bytes_.fill(0xA5); }

  /// Called when a block ends, with its shared memory: `bytes` bytes at `from`.
  void Leave(const uint8_t* from, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    std::memcpy(bytes_.data(), from, std::min<size_t>(bytes, bytes_.size()));
  }
  /// Called when a block begins, to fill its shared memory. The first bytes (4096 at most), where
  /// workers keep their own state, become those of the last block that ended; the rest a pattern.
  void Fill(uint8_t* to, uint32_t bytes) {
    std::memset(to, 0xA5, bytes);
    const std::lock_guard lock(mutex_);
    std::memcpy(to, bytes_.data(), std::min<size_t>(bytes, bytes_.size()));
  }

 private:
  std::mutex mutex_;
  std::array<uint8_t, 4096> bytes_;
};

}  // namespace cupola::sim
