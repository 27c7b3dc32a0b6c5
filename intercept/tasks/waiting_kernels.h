// Kernels that were launched as kernels and may not have begun. The MasterKernel, which holds all SMs,
// is asked to leave when one is launched; one that other work of its stream comes before could begin
// later, when another MasterKernel runs and tasks come without a pause. While there may be such a
// kernel, MasterKernels are asked to leave now and then: what is ready when one leaves comes before
// the next, which was launched later.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "intercept/streams.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// The driver was given a kernel for this stream, of the context of an engine that is ready. Any
/// thread.
void NoteKernel(const TaskEngine& engine, CUstream stream, const StreamKey& key) noexcept;

/// The stream is about to be destroyed: it is not asked about any more.
void ForgetKernels(CUstream stream) noexcept;

namespace internal {
extern std::atomic<uint32_t> waiting_kernels;
void MakeWay(TaskEngine& engine) noexcept;
}  // namespace internal

/// A task is about to be put in, under its stream's lock, while no capture and no waiting scope is
/// open. May ask the driver about streams, once in a millisecond.
inline void MakeWay(TaskEngine& engine) noexcept {
  if (internal::waiting_kernels.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    internal::MakeWay(engine);
  }
}

}  // namespace cupola::intercept::tasks
