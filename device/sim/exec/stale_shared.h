// What shared memory holds when a block begins: on a GPU, what an earlier block left there. A kernel
// that reads shared memory before it writes it works on zeros and fails there.
// One of these a device; thread-safe.
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

  /// A block ends; `bytes` bytes of shared memory are at `from`.
  void Leave(const uint8_t* from, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    std::memcpy(bytes_.data(), from, std::min<size_t>(bytes, bytes_.size()));
  }
  /// A block begins. Beyond the first bytes, which is where workers keep what is theirs, it finds a
  /// pattern.
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
