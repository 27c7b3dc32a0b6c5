// Small copies between launches that are tasks travel as tasks too, so that their stream need not
// change to the driver and back. docs/narrow-tasks.md.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// The side of a copy that is host memory, as its call says.
enum class HostSide : uint8_t { kNone, kFrom, kTo };

/// A copy of the program: addresses as they were given, in one address space (CUDA Driver API,
/// "Unified Addressing").
struct CopyFacts {
  uint64_t to, from;
  size_t bytes;
  CUstream stream;
  bool per_thread;  ///< the _ptsz form
  HostSide host = HostSide::kNone;
};

/// Puts the copy into the TaskTable; where it is to pageable memory, waits until it is over (CUDA
/// Driver API, "API synchronization behavior"). False: it is to go to the driver, and the stream's
/// tasks have been seen to. Any thread.
bool TryCopy(const CopyFacts& facts) noexcept;

/// Memory is about to be freed or unregistered: what was found out about addresses is forgotten.
void ForgetMemory() noexcept;

}  // namespace cupola::intercept::tasks
