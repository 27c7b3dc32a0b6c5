#include "intercept/tasks/context_rest.h"

#include <unistd.h>

#include <algorithm>

#include "intercept/facts/streams.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

constexpr uint64_t kFirstPauseNs = 500'000'000, kMostPauseNs = 8'000'000'000;
constexpr uint64_t kSpinNs = 200'000;
constexpr useconds_t kSleepUs = 50;

// The type of cuCtxRecordEvent, which toolkits before 12.5 do not name.
using CtxRecordEvent = CUresult (*)(CUcontext, CUevent);

CUresult Record(CUcontext context, CUevent event) {
  // cuCtxRecordEvent would end a capture of another thread.
  const NoCaptureBegins scope;
  if (scope.is_any_open()) return CUDA_ERROR_NOT_READY;
  return CUPOLA_CALL_REAL(cuCtxRecordEvent, CtxRecordEvent)(context, event);
}

}  // namespace

bool ContextRest::Await(CUcontext context) noexcept {
  const auto create = CUPOLA_CALL_REAL(cuEventCreate, PFN_cuEventCreate_v2000);
  const auto query = CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000);
  if (event_ == nullptr && create(&event_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return true;
  const CUresult recorded = Record(context, event_);
  if (recorded != CUDA_SUCCESS) return recorded != CUDA_ERROR_NOT_READY;
  const uint64_t since = NowNs();
  while (query(event_) == CUDA_ERROR_NOT_READY) {
    if (NowNs() - since > task_settings.patience_ns) return false;
    if (NowNs() - since > kSpinNs) usleep(kSleepUs);
  }
  return true;
}

bool ContextRest::Comes(CUcontext context) noexcept {
  if (NowNs() < paused_until_ns_) return false;
  if (Await(context)) {
    pause_ns_ = 0;
    return true;
  }
  pause_ns_ = std::clamp(4 * pause_ns_, kFirstPauseNs, kMostPauseNs);
  paused_until_ns_ = NowNs() + pause_ns_;
  return false;
}

}  // namespace cupola::intercept::tasks
