// Remembers kernels that the driver was given and that may not have begun, and calls that wait in
// the driver, perhaps for a kernel of the driver's own. The MasterKernel holds all SMs, so it is
// asked to leave when such a kernel is launched. But a kernel behind other work of its stream
// becomes ready later, when another MasterKernel may run and tasks may come without a pause. So
// while there may be such a kernel or call, MasterKernels are asked to leave now and then: a kernel
// that is ready when one leaves begins before the next MasterKernel, which was launched later. Any
// thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// Called when the driver was given a kernel for this stream, or work that may be one. Returns the
/// engine of the stream's context; null, and nothing is recorded, if there is none or it is not
/// ready.
TaskEngine* RecordPendingKernel(CUstream stream, bool per_thread) noexcept;

/// Called when the stream is about to be destroyed: the driver is not queried about it any more.
void ForgetKernels(CUstream stream) noexcept;

/// Called when the engine's context is about to end and the engine knows it (TaskEngine::Pause):
/// the driver is not queried about any of its streams any more.
void ForgetKernelsOf(const TaskEngine& engine) noexcept;

/// Around a call in which this thread waits in the driver, such as a synchronous copy. A second
/// begin before the end counts once.
void BeginDriverWait() noexcept;
void EndDriverWait() noexcept;

namespace internal {
extern std::atomic<uint32_t> waiting_kernels;
extern std::atomic<uint32_t> waiting_calls;
void MakeWay(TaskEngine& engine) noexcept;
}  // namespace internal

/// Called before a task is put in, under its stream's lock, while no capture and no waiting scope
/// is open: asks the MasterKernel to leave if a kernel or call may wait. May query the driver about
/// streams, once in a millisecond.
inline void MakeWay(TaskEngine& engine) noexcept {
  const uint32_t waiting = internal::waiting_kernels.load(std::memory_order_relaxed) +
                           internal::waiting_calls.load(std::memory_order_relaxed);
  if (waiting != 0) [[unlikely]] internal::MakeWay(engine);
}

}  // namespace cupola::intercept::tasks
