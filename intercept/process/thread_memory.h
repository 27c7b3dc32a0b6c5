// What Cupola keeps of a thread beyond the few words of ThreadState: too much for static TLS, of which all
// libraries of a process together have some hundred bytes to spare (LD_AUDIT, or a library that is loaded
// late). Made at a thread's first use and given back at its end; what a destructor that runs later still
// launches makes it again.
#pragma once

#include <cstddef>

namespace cupola::intercept {

/// All bytes are zero at first. Each part is for one source file, which says what it holds.
struct ThreadMemory {
  alignas(16) std::byte allocations[288];  ///< allocations.cpp
  alignas(16) std::byte ranges[2560];      ///< tasks/task_copies.cpp
};

extern thread_local constinit ThreadMemory* thread_memory __attribute__((tls_model("initial-exec")));

/// The calling thread's, made by one system call. Null when there is no memory.
ThreadMemory* MakeThreadMemory() noexcept;

/// The calling thread's, or null when there is no memory. No allocation once it is there.
inline ThreadMemory* MemoryOfThread() noexcept {
  return thread_memory != nullptr ? thread_memory : MakeThreadMemory();
}

/// One part as what its owner keeps there: trivial to destroy, and good with all bytes zero.
template <typename Kept, size_t kBytes>
Kept* KeptIn(std::byte (&part)[kBytes]) noexcept {
  static_assert(sizeof(Kept) <= kBytes && alignof(Kept) <= 16);
  return reinterpret_cast<Kept*>(part);
}

}  // namespace cupola::intercept
