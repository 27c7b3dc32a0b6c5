// Green contexts: which contexts and streams are bound to some of the device's SMs. Launches there go out
// plain, because a MasterKernel or a resume would run on other SMs too. Hooks record green contexts and
// their streams. Look-ups are lock-free. Any thread. CUDA Driver API, "Green Contexts".
#pragma once

#include <atomic>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
namespace internal {

extern std::atomic<bool> has_green;
bool IsKnownGreen(CUstream stream, CUcontext context) noexcept;

}  // namespace internal

/// The stream was made by cuGreenCtxStreamCreate: it is bound until it is destroyed.
void MarkGreenStream(CUstream stream) noexcept;
void ForgetGreenStream(CUstream stream) noexcept;
/// The context was made by cuCtxFromGreenCtx: all launches made while it is current are bound. The
/// handle is never forgotten. An ordinary context that gets the same handle later counts as bound
/// too, so that its launches go out plain.
void MarkGreenContext(CUcontext context) noexcept;

/// Whether a launch into `stream`, whose key is `key`, is bound to some SMs.
inline bool IsGreen(CUstream stream, const StreamKey& key) noexcept {
  if (!internal::has_green.load(std::memory_order_relaxed)) [[likely]] return false;
  return internal::IsKnownGreen(stream, reinterpret_cast<CUcontext>(key.context));
}

void ResetGreenContextsAfterFork() noexcept;

}  // namespace cupola::intercept
