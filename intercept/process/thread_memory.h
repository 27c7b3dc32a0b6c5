// ThreadMemory: what Cupola keeps of a thread beyond the few words of ThreadState. It is too much for static
// TLS, of which all libraries of a process that are loaded late, or by LD_AUDIT, have together only some
// hundred bytes. It is made at the thread's first use and freed at its end; a destructor that runs later and
// still launches makes it again. Each thread uses its own.
#pragma once

#include <cstddef>

namespace cupola::intercept {

/// All bytes are zero at first. Each member belongs to one source file, which defines its contents (KeptIn).
struct ThreadMemory {
  alignas(16) std::byte allocations[288];  ///< facts/allocations.cpp
  alignas(16) std::byte ranges[2560];      ///< tasks/task_copies.cpp
  alignas(16) std::byte known_launches[4096];  ///< launch/known_launch.cpp
};

extern thread_local constinit ThreadMemory* thread_memory __attribute__((tls_model("initial-exec")));

/// Makes the calling thread's ThreadMemory, by mmap. Null when there is no memory. Keeps errno.
ThreadMemory* MakeThreadMemory() noexcept;

/// The calling thread's ThreadMemory, made at the first call; null when there is no memory.
inline ThreadMemory* MemoryOfThread() noexcept {
  return thread_memory != nullptr ? thread_memory : MakeThreadMemory();
}

/// A member of ThreadMemory as the type that its owner keeps there. The type must need no destructor, and
/// all bytes zero must be a valid value.
template <typename Kept, size_t kBytes>
Kept* KeptIn(std::byte (&part)[kBytes]) noexcept {
  static_assert(sizeof(Kept) <= kBytes && alignof(Kept) <= 16);
  return reinterpret_cast<Kept*>(part);
}

}  // namespace cupola::intercept
