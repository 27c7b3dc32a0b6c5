// ContextScope: makes a context current on the calling thread while it lives. A launch into a stream may come while
// another context than the stream's is current; what Cupola makes for such a launch belongs to the stream's context.
// The launch path, batches, timing and stuck waits make one on the thread that they run on, which must destroy it too.
// Costs three driver calls where another context is current, else one; none of them waits for the device.
#pragma once

#include "intercept/facts/streams.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept {

class ContextScope {
 public:
  /// Does nothing where the context is current already, or null.
  explicit ContextScope(CUcontext context) noexcept {
    if (context == nullptr || CurrentContext() == context) return;
    is_pushed_ = CUPOLA_CALL_REAL(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000)(context) == CUDA_SUCCESS;
    is_made_ = is_pushed_;
  }
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (is_pushed_) (void)CUPOLA_CALL_REAL(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000)(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  /// False: the driver has refused, and another context is current.
  bool is_made() const noexcept { return is_made_; }

 private:
  bool is_pushed_ = false;
  bool is_made_ = true;
};

}  // namespace cupola::intercept
