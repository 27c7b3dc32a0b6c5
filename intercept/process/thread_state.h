// ThreadState and ThreadMemory: what Cupola keeps of each thread of the program. It is plain data with constant
// initialisation in static TLS, so that using it allocates nothing and runs no code. Each thread uses
// its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reasons.h"

namespace cupola::intercept {

class LaneWriter;

struct ThreadState {
  uint32_t depth;              ///< raised inside each hook; while it is not 0, calls go straight to the driver
  uint32_t thread_id;          ///< gettid(); 0 = not asked yet
  // For launches as tasks (tasks/task_launch.h). A launch *passes by* if it goes to the driver without any work on
  // tasks (tasks::PassesBy). Such launches are counted here, and now and then added to the process's counters.
  uint32_t passed_by;          ///< launches that passed by because tasks do not pay; not yet added to the counters
  uint32_t never_in_row;       ///< how many launches in a row, up to the last, were found unable ever to be tasks
  uint32_t never_passed;       ///< launches that passed by because `never_in_row` is high; not yet added either
  uint8_t never_why;           ///< the Reason under which `never_passed` is added to the counters
  bool knows_launches;         ///< it has kept the form of a launch (launch/known_launch.h)
  // How the last launch went out: the next two are set by preempt/ for a variant, the third by the launch path for a
  // plain launch. LaunchTimed (path/record_launch.h) and LaunchReported (path/launch_path.h) clear the flags before a
  // launch and read them after it; nobody else does.
  bool launched_variant;       ///< the launch went out as a preemptible or sliced variant
  bool launched_gated;         ///< the launch went out plain, in a process whose streams have gates
  uint32_t launched_batch;     ///< the launch's claim word (profiles/claim_word.h), which holds L; 0 if it was sliced
  Reason plain_reason;         ///< of a plain launch under an arbiter: why it went out in no other form
  bool opening_driver;         ///< this thread is loading the driver
  uint64_t per_thread_stream;  ///< id of this thread's per-thread default stream; 0 = none yet
  uint32_t batch_sampled;      ///< launches into `batch_stream` since `batch_sampled_ns` (batches/batches.h)
  const void* batch_stream;    ///< the stream whose launches by this thread are counted
  uint64_t batch_sampled_ns;   ///< when the count began; a time of NowNs (fast_clock.h)
  LaneWriter* lane;            ///< where the thread's launches are recorded; null = it has not asked for a lane yet
  // The stream that was looked up last (facts/streams.h). What these members say is valid while `stream_epoch` equals
  // the launch epoch (participation.h).
  const void* stream;          ///< its handle
  /// Whether it synchronises with the legacy stream; see IsBlocking (facts/live_streams.h).
  enum class Blocking : uint8_t { kNotAsked, kYes, kNo } stream_blocking;
  uint64_t stream_epoch;       ///< the launch epoch before the look-up
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

/// What Cupola keeps of a thread beyond the few words of ThreadState: too much for static TLS, of which all libraries of a
/// process that are loaded late, or by LD_AUDIT, have together only some hundred bytes. It is made at the thread's first use
/// and freed at its end; a destructor that runs later and still launches makes it again. Each thread uses its own.
/// All bytes are zero at first. Each member belongs to one source file, which defines its contents (KeptIn).
struct ThreadMemory {
  alignas(16) std::byte allocations[288];  ///< facts/allocations.cpp
  alignas(16) std::byte ranges[2560];      ///< tasks/task_copies.cpp
  alignas(16) std::byte known_launches[4096];  ///< launch/known_launch.cpp
};

extern thread_local constinit ThreadMemory* thread_memory __attribute__((tls_model("initial-exec")));

/// Makes the calling thread's ThreadMemory, by mmap. Null when there is no memory. Keeps errno.
ThreadMemory* MakeThreadMemory() noexcept;

/// The calling thread's ThreadMemory, made at the first call; null when there is no memory.
inline ThreadMemory* MemoryOfThread() noexcept {
  return thread_memory != nullptr ? thread_memory : MakeThreadMemory();
}

/// A member of ThreadMemory as the type that its owner keeps there. The type must need no destructor, and
/// all bytes zero must be a valid value.
template <typename Kept, size_t kBytes>
Kept* KeptIn(std::byte (&part)[kBytes]) noexcept {
  static_assert(sizeof(Kept) <= kBytes && alignof(Kept) <= 16);
  return reinterpret_cast<Kept*>(part);
}

}  // namespace cupola::intercept
