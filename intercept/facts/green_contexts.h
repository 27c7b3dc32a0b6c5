// Green contexts: which contexts and streams are bound to some of the device's SMs. Kernels there stay
// as the program made them: a MasterKernel, or what a stopped kernel has left, would run on the other
// SMs too. Look-ups are lock-free; thread-safe. CUDA Driver API, "Green Contexts".
#pragma once

#include <atomic>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
namespace internal {

extern std::atomic<bool> has_green;
bool IsKnownGreen(CUstream stream, CUcontext context) noexcept;

}  // namespace internal

/// Of cuGreenCtxStreamCreate: the stream is bound until it is destroyed.
void NoteGreenStream(CUstream stream) noexcept;
void ForgetGreenStream(CUstream stream) noexcept;
/// Of cuCtxFromGreenCtx: whatever is launched where it is current is bound. Its handle is not
/// forgotten: a plain context that gets it later is taken for bound, which costs it tasks.
void NoteGreenContext(CUcontext context) noexcept;

/// Whether a launch into `stream`, which is `key`, is bound to some SMs.
inline bool IsGreen(CUstream stream, const StreamKey& key) noexcept {
  if (!internal::has_green.load(std::memory_order_relaxed)) [[likely]] return false;
  return internal::IsKnownGreen(stream, reinterpret_cast<CUcontext>(key.context));
}

void ResetGreenContextsAfterFork() noexcept;

}  // namespace cupola::intercept
