// Which allocation an address lies in; and the input bytes of a launch, which are the sizes of the
// different allocations that its pointer arguments lie in. Predictions and the records of `cupola
// profile` ask on the launching thread; the hooks of calls that make memory report here. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept {

struct Allocation {
  uint64_t base = 0;   ///< its first address
  uint64_t bytes = 0;  ///< its size; 0: the address lies in no allocation
};

/// Sums the sizes of different allocations. Only the first kMost are told apart: a later one counts
/// each time.
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

/// The allocation that `address` lies in. Asks the driver (cuMemGetAddressRange) if this thread
/// does not remember the allocation, or memory was made since. Otherwise there is no call, lock or
/// allocation.
Allocation AllocationOf(uint64_t address) noexcept;

/// A call that may have made memory has returned: an address may lie in another allocation now.
void OnMemoryMade() noexcept;

}  // namespace cupola::intercept
