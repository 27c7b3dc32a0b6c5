// Hooks of the calls that wait for a whole context. Without them such a call would also wait for a
// resident MasterKernel. CUDA Driver API, "Context Management".
#include <cuda.h>

#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
namespace {

// `context`: the one that the call names; null: the current one.
template <typename CallDriver>
CUresult Synchronize(CUcontext context, CallDriver&& call_driver) noexcept {
  if (!TasksOn() || InsideHook()) return call_driver();
  const HookScope scope;
  const tasks::ContextWait wait = tasks::BeginContextWait(context);
  if (wait.is_for_legacy_stream) {
    return CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)(CU_STREAM_LEGACY);
  }
  const CUresult result = call_driver();
  tasks::EndContextWait(wait, result);
  return result;
}

}  // namespace

extern "C" {

CUresult hook_cuCtxSynchronize() noexcept {
  return Synchronize(nullptr, [] { return CUPOLA_REAL(cuCtxSynchronize)(); });
}

CUresult hook_cuCtxSynchronize_v2(CUcontext context) noexcept {
  return Synchronize(context, [context] { return CUPOLA_REAL(cuCtxSynchronize_v2)(context); });
}

}  // extern "C"
}  // namespace cupola::intercept
