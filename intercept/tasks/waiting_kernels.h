// Kernels that were launched as kernels and may not have begun, and calls that wait in the driver for
// what may be such a kernel of its own. The MasterKernel, which holds all SMs, is asked to leave when
// one is launched; one that other work of its stream comes before could begin later, when another
// MasterKernel runs and tasks come without a pause. While there may be such a kernel or call,
// MasterKernels are asked to leave now and then: what is ready when one leaves comes before the next,
// which was launched later.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// The driver was given a kernel for this stream, or what may be one. The engine of its context; null,
/// and nothing is noted, where that is not ready. Any thread.
TaskEngine* NoteKernel(CUstream stream, bool per_thread) noexcept;

/// The stream is about to be destroyed: it is not asked about any more.
void ForgetKernels(CUstream stream) noexcept;

/// The engine's context is about to end, and is noted as ended: none of its streams is asked about any
/// more.
void ForgetKernelsOf(const TaskEngine& engine) noexcept;

/// This thread is about to wait in the driver, in a synchronous copy or the like, and has done so. A
/// second begin before the end counts once.
void BeginDriverWait() noexcept;
void EndDriverWait() noexcept;

namespace internal {
extern std::atomic<uint32_t> waiting_kernels, waiting_calls;
void MakeWay(TaskEngine& engine) noexcept;
}  // namespace internal

/// A task is about to be put in, under its stream's lock, while no capture and no waiting scope is
/// open. May ask the driver about streams, once in a millisecond.
inline void MakeWay(TaskEngine& engine) noexcept {
  const uint32_t waiting = internal::waiting_kernels.load(std::memory_order_relaxed) +
                           internal::waiting_calls.load(std::memory_order_relaxed);
  if (waiting != 0) [[unlikely]] internal::MakeWay(engine);
}

}  // namespace cupola::intercept::tasks
