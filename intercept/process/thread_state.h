// What Cupola keeps of each thread of the host. Plain data with constant initialisation, in static
// TLS: touching it allocates nothing and runs no code.
#pragma once

#include <cstdint>

namespace cupola::intercept {

class LaneWriter;

struct ThreadState {
  uint32_t depth;              ///< hooks on this thread's stack; inside one, calls pass straight on
  uint32_t thread_id;          ///< gettid(); 0 = not asked yet
  uint32_t passed_by;          ///< launches since they were last counted (tasks/task_launch.h)
  uint32_t never_in_row;       ///< its last launches that can be no tasks whatever comes (tasks/task_launch.h)
  uint32_t never_passed;       ///< of these, that passed by since they were last counted
  uint8_t never_why;           ///< tasks::Plain of the last one that was looked at
  bool launched_variant;       ///< its last launch went out as a preemptible variant
  uint32_t launched_batch;     ///< with that L
  bool opening_driver;         ///< the driver is being loaded by this thread
  uint64_t per_thread_stream;  ///< id of this thread's default stream; 0 = none yet
  // Launches into `batch_stream` since `batch_sampled_ns` (batches/batches.h).
  uint32_t batch_sampled;
  const void* batch_stream;
  uint64_t batch_sampled_ns;
  LaneWriter* lane;            ///< where its launches are recorded; null = not asked yet
  // The stream that was looked up last, and what it means while `stream_epoch` is that of streams.cpp.
  const void* stream;
  enum class Blocking : uint8_t { kNotAsked, kYes, kNo } stream_blocking;
  uint64_t stream_epoch, stream_context, stream_id;
};

extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

/// The id of the calling thread, asked of the system once a thread.
uint32_t ThreadId() noexcept;

/// Marks the thread as being inside a hook: what the driver calls from here on is its own affair.
class HookScope {
 public:
  HookScope() noexcept { ++this_thread.depth; }
  ~HookScope() { --this_thread.depth; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
};

/// True when a hook is already under way on this thread.
inline bool InsideHook() noexcept { return this_thread.depth != 0; }

}  // namespace cupola::intercept
