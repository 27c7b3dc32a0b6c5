#include "intercept/facts/allocations.h"

#include <atomic>

#include "intercept/process/driver_calls.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {
namespace {

// Raised when memory is made; only then can an address come to lie in another allocation. Relaxed
// order is enough: a thread that passes an address to a launch has it from a call that has
// returned, and so sees the count that the call left.
std::atomic<uint64_t> memory_made{0};

/// The last allocations that the driver told this thread, a ring. Valid while `made` is
/// `memory_made`.
struct Told {
  static constexpr uint32_t kMost = 16;
  Allocation allocations[kMost];
  uint32_t count;  ///< valid entries
  uint32_t next;   ///< entry that is written next
  uint64_t made;   ///< memory_made when they were told
};

}  // namespace

Allocation AllocationOf(uint64_t address) noexcept {
  ThreadMemory* const memory = MemoryOfThread();
  Told nothing;
  Told& told = memory != nullptr ? *KeptIn<Told>(memory->allocations) : (nothing = {});
  const uint64_t made = memory_made.load(std::memory_order_relaxed);
  if (told.made != made) {
    told.count = told.next = 0;
    told.made = made;
  }
  for (uint32_t i = 0; i < told.count; ++i) {
    const Allocation& known = told.allocations[i];
    if (address - known.base < std::max<uint64_t>(known.bytes, 1)) return known;
  }
  Allocation found{.base = address};
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const auto range = CUPOLA_CALL_REAL(cuMemGetAddressRange_v2, PFN_cuMemGetAddressRange_v3020);
  if (range(&base, &bytes, address) == CUDA_SUCCESS) found = {.base = base, .bytes = bytes};
  told.allocations[told.next] = found;
  told.next = (told.next + 1) % Told::kMost;
  told.count = std::min(told.count + 1, Told::kMost);
  return found;
}

void OnMemoryMade() noexcept { memory_made.fetch_add(1, std::memory_order_relaxed); }

}  // namespace cupola::intercept
