// How many SMs a launch needs. Processes that share a context (MPS) can leave just so many SMs to
// each other. sm_demand.cpp asks the driver how many blocks fit on an SM, once for each kernel,
// block shape and shared memory size, when waiting is allowed. The answers are kept in a FitTable,
// which launches read without a lock. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// How many of `sms` SMs hold `blocks` blocks at once, with `per_sm` blocks on each; kAllSms if
/// that is all of them, or if per_sm is 0 (not known, or none fits).
uint32_t SmsFor(uint64_t blocks, uint32_t per_sm, uint32_t sms) noexcept;

/// How many blocks of a kernel and block shape fit on an SM. The table has a fixed size; when it is
/// full, further entries stay unknown.
class FitTable {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  /// The blocks of `function` (CUfunction or CUkernel) that fit on an SM, or kUnknown. A block has
  /// `threads` threads and `shared` bytes of dynamic shared memory. Costs some loads.
  uint32_t Find(const void* function, uint32_t threads, uint32_t shared) const noexcept;

  /// Adds an entry. False: there is no room. One caller at a time.
  bool Set(const void* function, uint32_t threads, uint32_t shared, uint32_t per_sm) noexcept;

  /// Forgets all entries: handles may mean other kernels from now on. One caller at a time, and
  /// none of Set meanwhile.
  void Clear() noexcept;

 private:
  static constexpr uint32_t kEntries = 1024, kProbes = 16;
  struct Entry {
    std::atomic<uint64_t> function{0};
    std::atomic<uint64_t> shape{0};  ///< threads << 32 | shared bytes
    std::atomic<uint32_t> per_sm{0};
    std::atomic<uint32_t> version{0};  ///< odd while the entry is written
  };
  Entry entries_[kEntries];
};

}  // namespace cupola::intercept::preempt
