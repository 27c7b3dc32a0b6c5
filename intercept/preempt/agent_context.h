// Which context the agent's thread makes its driver calls in. It has one only while it is at work:
// the old form of cuCtxPushCurrent, which programs may use still, refuses a context that is another
// thread's [CUDA Driver API up to 3.2; seen on an H200: docs/preemption.md, "The agent"].
#pragma once

#include "intercept/process/driver_calls.h"

namespace cupola::intercept::preempt {

inline thread_local bool has_agent_context = false;

/// From here on the calling thread's driver calls are in that context. The agent's thread only.
inline CUresult TakeContext(CUcontext context) noexcept {
  has_agent_context = true;
  return CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(context);
}

/// Before it sleeps.
inline void LetContextGo() noexcept {
  if (!has_agent_context) return;
  has_agent_context = false;
  (void)CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(nullptr);
}

}  // namespace cupola::intercept::preempt
