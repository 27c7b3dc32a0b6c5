// The CUDA context in which the agent's thread makes its driver calls. The agent makes a context
// current only while it works, and gives it up before it sleeps: the old form of cuCtxPushCurrent,
// which programs may still use, refuses a context that is current on another thread [CUDA Driver
// API up to 3.2; seen on an H200: docs/notes/2026-11-28-stops-of-some-sms.md]. Agent's thread only.
#pragma once

#include "intercept/process/driver_calls.h"

namespace cupola::intercept {

inline thread_local bool has_agent_context = false;

/// Makes `context` current: from here on the agent's driver calls are made in it.
inline CUresult TakeContext(CUcontext context) noexcept {
  has_agent_context = true;
  return CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(context);
}

/// Leaves the agent without a current context. The agent calls it before it sleeps.
inline void LetContextGo() noexcept {
  if (!has_agent_context) return;
  has_agent_context = false;
  (void)CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(nullptr);
}

}  // namespace cupola::intercept
