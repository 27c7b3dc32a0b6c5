// Makes tasks of small copies and memory sets that stand between launches which are tasks, so that
// the stream need not change to the driver and back. Called by the hooks of those calls
// (entry/copy_hooks.cpp), on the program's thread; any thread. docs/task-order.md.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// The side of a copy that is host memory according to the call; kEither: only the addresses tell.
enum class HostSide : uint8_t { kNone, kFrom, kTo, kEither };

/// A call of the program that copies or sets memory.
struct MemoryCall {
  CUstream stream;      ///< as the program gave it
  bool per_thread;      ///< the _ptsz or _ptds form
  bool is_synchronous;  ///< the form without a stream
};

/// A copy of the program, with the addresses that the program gave, which are of one address space
/// (CUDA Driver API, "Unified Addressing").
struct CopyFacts {
  uint64_t to;
  uint64_t from;
  size_t bytes;
  HostSide host;
};

/// A memory set: the four bytes of `pattern` are repeated. For items of one or two bytes the
/// pattern holds the item several times.
struct FillFacts {
  uint64_t to;
  size_t bytes;
  uint32_t pattern;
};

/// Puts the copy into the TaskTable. Waits until it is over if it writes pageable memory, or if the
/// call is synchronous and one side is host memory (CUDA Driver API, "API synchronization
/// behavior"). False: the driver is to make the copy, and the order behind earlier tasks is
/// ensured; the caller then calls AfterDriver after the driver's call.
bool TryCopy(const MemoryCall& call, const CopyFacts& facts) noexcept;

/// The same for a set of device memory, for which nothing waits.
bool TryFill(const MemoryCall& call, const FillFacts& facts) noexcept;

/// Called after the driver was given the call: records the stream's driver work, and that it may be
/// a kernel, since the driver sets memory with a kernel of its own and may copy with one.
void AfterDriver(const MemoryCall& call) noexcept;

/// Called when memory is about to be freed or unregistered: forgets what was found out about
/// addresses.
void ForgetMemory() noexcept;

}  // namespace cupola::intercept::tasks
