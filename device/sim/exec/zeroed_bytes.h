// Memory of warps and blocks that begins as zeros. A frame has a row for each register that the PTX
// names, and most kernels touch few of them. So large memory comes straight from the operating
// system, which neither clears nor provides pages that nobody touches, or from what this thread had
// before, of which only the pages that were touched are cleared. The state of a warp or block
// (state.h) owns each, and one thread at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace cupola::sim {

/// MapZeros gives pages that hold zeros, null if there are none left. UnmapZeros takes them back, for the next call of
/// the same thread with the same size. Any thread.
uint8_t* MapZeros(size_t size);
void UnmapZeros(uint8_t* bytes, size_t size);

/// Owns `size` bytes that begin as zeros. The constructor throws std::bad_alloc. Not thread-safe.
class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  explicit ZeroedBytes(size_t size) : size_(size) {
    if (size >= kOwnPages) {
      bytes_ = MapZeros(size);
    } else {
      bytes_ = static_cast<uint8_t*>(std::calloc(size, 1));
    }
    if (bytes_ == nullptr && size != 0) throw std::bad_alloc();
  }
  ZeroedBytes(ZeroedBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ZeroedBytes& operator=(ZeroedBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~ZeroedBytes() {
    if (size_ >= kOwnPages) {
      UnmapZeros(bytes_, size_);
    } else {
      std::free(bytes_);
    }
  }

  uint8_t* get() const { return bytes_; }

  /// From this size on, the memory is mapped pages of its own. Under AddressSanitizer it always
  /// comes from calloc, so that accesses beyond its ends are found.
#ifdef __SANITIZE_ADDRESS__
  static constexpr size_t kOwnPages = SIZE_MAX;
#else
  static constexpr size_t kOwnPages = 64u << 10;
#endif

 private:
  uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace cupola::sim
