// Finds out whether all work that a context has been given ends by itself. Loading a module or a
// kernel waits in the driver for all of that work, and meanwhile the driver holds what launches
// need [measured on an H200: docs/waiting.md, "Calls behind a guard"]. If some of the
// work waits for the host, perhaps for the very thread that loads, neither would ever end. So an
// engine (task_engine.h), which owns one of these, asks before it loads.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cupola::intercept::tasks {

class ContextRest {
 public:
  /// Whether all work that `context`, which is current, has been given has ended. Waits for it for
  /// TaskSettings::patience_ns at most. After a wait in vain it answers false without asking for
  /// half a second, and for four times as long after each further one, up to eight seconds. True if
  /// the driver answers with an error. Only with a driver that has cuCtxRecordEvent (CUDA 12.5): without it
  /// there are no tasks (StartTasks). The caller is under RelaxedCapture; one thread at a time.
  bool Comes(CUcontext context) noexcept;

 private:
  bool Await(CUcontext context) noexcept;

  CUevent event_ = nullptr;       ///< recorded again for each question; ends with its context
  uint64_t pause_ns_ = 0;         ///< length of the last pause; 0 once a wait has succeeded
  uint64_t paused_until_ns_ = 0;  ///< until then the answer is false
};

}  // namespace cupola::intercept::tasks
