// What a driver call has to do with tasks, by its name. No CUDA call; task_rules.h does what is
// said here.
#pragma once

#include <cstdint>

namespace cupola::intercept::tasks {

enum class Rule : uint8_t {
  kNone,                 ///< has nothing to do with tasks
  kHook,                 ///< its hook sees to it (task_copies.h)
  kFlush,                ///< gives a stream work: it comes after the stream's tasks
  kWait,                 ///< tasks are waited for; the MasterKernel may stay
  kWaitAndLeave,         ///< may wait for the device
  kSyncStream,           ///< tasks of one stream are waited for
  kSyncStreamPerThread,  ///< the same, the _ptsz form
  kSyncEvent,            ///< the driver waits for tasks that the event is behind
  kEndStream,
};

/// Of a call of the class kMayWait, or kHook of any.
Rule RuleFor(const char* name) noexcept;

}  // namespace cupola::intercept::tasks
