// Which allocation an address lies in, and a launch's input bytes: the sizes of the different
// allocations that its pointer arguments lie in. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept {

struct Allocation {
  uint64_t base = 0, bytes = 0;  ///< bytes 0: the address lies in none
};

/// Sums the sizes of different allocations; the first kMost are told apart.
class InputBytes {
 public:
  static constexpr size_t kMost = 64;
  void Add(const Allocation& allocation) noexcept {
    if (std::find(seen_, seen_ + count_, allocation.base) != seen_ + count_) return;
    if (count_ < kMost) seen_[count_++] = allocation.base;
    sum_ += allocation.bytes;
  }
  uint64_t sum() const noexcept { return sum_; }

 private:
  uint64_t seen_[kMost];
  size_t count_ = 0;
  uint64_t sum_ = 0;
};

/// The allocation that `address` lies in. The driver is asked (cuMemGetAddressRange) where this
/// thread has not been since memory was last made; else no call, lock or allocation.
Allocation AllocationOf(uint64_t address) noexcept;

/// A call that may have made memory is over: an address may lie in another allocation now.
void NoteMemoryMade() noexcept;

}  // namespace cupola::intercept
