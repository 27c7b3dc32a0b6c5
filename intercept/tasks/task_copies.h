// Small copies between launches that are tasks, and memory that is set, travel as tasks too, so
// that their stream need not change to the driver and back. docs/launches-as-tasks.md.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// The side of a copy that is host memory, as its call says; kEither: the addresses say it.
enum class HostSide : uint8_t { kNone, kFrom, kTo, kEither };

/// Of a call that copies or sets memory.
struct MemoryCall {
  CUstream stream;
  bool per_thread;      ///< the _ptsz or _ptds form
  bool is_synchronous;  ///< the form without a stream
};

/// A copy of the program: addresses as they were given, in one address space (CUDA Driver API,
/// "Unified Addressing").
struct CopyFacts {
  uint64_t to, from;
  size_t bytes;
  HostSide host;
};

/// Memory that is set: to a pattern of four bytes, again and again, of which each item is a part.
struct FillFacts {
  uint64_t to;
  size_t bytes;
  uint32_t pattern;
};

/// Puts the copy into the TaskTable; waits until it is over where it is to pageable memory, or
/// where the call is synchronous and a side is host memory (CUDA Driver API, "API synchronization
/// behavior"). False: it is to go to the driver, and the tasks that come
/// before it have been seen to; then AfterDriver is called behind it. Any thread.
bool TryCopy(const MemoryCall& call, const CopyFacts& facts) noexcept;

/// The same for device memory that is set, which is not waited for.
bool TryFill(const MemoryCall& call, const FillFacts& facts) noexcept;

/// The driver was given the call: it sets memory with a kernel of its own, and may copy with one.
void AfterDriver(const MemoryCall& call) noexcept;

/// Memory is about to be freed or unregistered: what was found out about addresses is forgotten.
void ForgetMemory() noexcept;

}  // namespace cupola::intercept::tasks
