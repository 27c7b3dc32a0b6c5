// How many SMs a launch needs, for those that share a context (MPS) and so can leave just as many.
// The blocks that fit on an SM are asked of the driver once a kernel, block shape and shared
// memory, where waiting is allowed, and kept in a table that launches read without a lock. Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// SMs that hold `blocks` at once, of `sms` with `per_sm` blocks each; kAllSms where that is all of
/// them, or per_sm is 0 (not known, or none fits).
uint32_t SmsFor(uint64_t blocks, uint32_t per_sm, uint32_t sms) noexcept;

/// What fits of which launch. Fixed size; when it is full the rest stays unknown.
class FitTable {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  /// Blocks of `function` (CUfunction or CUkernel) that fit on an SM, or kUnknown. Some loads.
  uint32_t Find(const void* function, uint32_t threads, uint32_t shared) const noexcept;

  /// False: no room. One caller at a time.
  bool Set(const void* function, uint32_t threads, uint32_t shared, uint32_t per_sm) noexcept;

  /// Handles may mean other kernels from now on. One caller at a time, also with Set.
  void Clear() noexcept;

 private:
  static constexpr uint32_t kEntries = 1024, kProbes = 16;
  struct Entry {
    std::atomic<uint64_t> function{0};
    std::atomic<uint64_t> shape{0};  ///< threads << 32 | shared bytes
    std::atomic<uint32_t> per_sm{0};
    std::atomic<uint32_t> version{0};  ///< odd while it is written
  };
  Entry entries_[kEntries];
};

}  // namespace cupola::intercept::preempt
