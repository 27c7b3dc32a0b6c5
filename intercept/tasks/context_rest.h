// Whether what a context has been given ends by itself. To load a module or a kernel waits for all
// of it, inside the driver, which meanwhile holds what launches need [measured on an H200:
// docs/preemption.md, "Calls behind a guard"]: behind work that waits for the host, and so perhaps
// for the very thread that calls, nothing would ever go on.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cupola::intercept::tasks {

class ContextRest {
 public:
  /// Whether all work that `context`, which is current, has been given has ended. Waits for that
  /// for Settings::patience_ns at most; after it has waited in vain it says no without asking for
  /// half a second, and four times as long each time, up to eight seconds. True where the driver
  /// cannot be asked (cuCtxRecordEvent is of CUDA 12.5). Under RelaxedCapture; one thread at a
  /// time.
  bool Comes(CUcontext context) noexcept;

 private:
  bool Await(CUcontext context) noexcept;

  CUevent event_ = nullptr;  ///< recorded again and again; ends with its context
  uint64_t pause_ns_ = 0, paused_until_ns_ = 0;
};

}  // namespace cupola::intercept::tasks
