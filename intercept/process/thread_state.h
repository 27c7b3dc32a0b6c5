// ThreadState: what Cupola keeps of each thread of the program. It is plain data with constant
// initialisation in static TLS, so that using it allocates nothing and runs no code. Each thread uses
// its own.
#pragma once

#include <cstdint>

namespace cupola::intercept {

class LaneWriter;

struct ThreadState {
  uint32_t depth;              ///< hooks on this thread's stack; if not 0, calls go straight to the driver
  uint32_t thread_id;          ///< gettid(); 0 = not asked yet
  uint32_t passed_by;          ///< launches that passed by since they were last counted (tasks/task_launch.h)
  uint32_t never_in_row;       ///< how many of its last launches, in a row, can never be tasks (tasks/task_launch.h)
  uint32_t never_passed;       ///< how many of these passed by since they were last counted
  uint8_t never_why;           ///< tasks::Plain of the last one of these that was looked at
  bool launched_variant;       ///< the last launch went out as a preemptible or sliced variant
  uint32_t launched_batch;     ///< the claim word of that launch (profiles/claim_word.h); 0 if it was sliced
  bool opening_driver;         ///< this thread is loading the driver
  uint64_t per_thread_stream;  ///< id of this thread's per-thread default stream; 0 = none yet
  uint32_t batch_sampled;      ///< launches into `batch_stream` since `batch_sampled_ns` (batches/batches.h)
  const void* batch_stream;
  uint64_t batch_sampled_ns;
  LaneWriter* lane;            ///< where the thread's launches are recorded; null = not asked yet
  // The stream that was looked up last (facts/streams.h). What follows about it is valid while `stream_epoch` is the
  // epoch of streams.cpp.
  const void* stream;          ///< its handle
  enum class Blocking : uint8_t { kNotAsked, kYes, kNo } stream_blocking;  ///< see IsBlocking
  uint64_t stream_epoch;
  uint64_t stream_context;     ///< its StreamKey::context
  uint64_t stream_id;          ///< its StreamKey::stream
};

extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

/// The system's id of the calling thread, asked once for each thread.
uint32_t ThreadId() noexcept;

/// While it lives the thread is inside a hook: calls that the driver makes meanwhile are its own, and are
/// passed on.
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
