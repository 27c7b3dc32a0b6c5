// Waiting (docs/waiting.md): no thread may wait inside the driver for work behind a guard. It may
// hold something there that the resume needs, and then both hang. So a hook of a waiting call does
// three things. It waits here until no guarded launch is outstanding, while the process can
// still be stopped and resumed. It opens a scope, in which other threads' launches go out plain.
// Then it calls the driver. calls/calls.def says which call waits for which launches. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/launch/launch_slots.h"

namespace cupola::intercept {
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

/// Which guarded launches a call is to wait for.
enum class WaitFor : uint8_t {
  kAll,
  kBlocking,  ///< those on streams that synchronise with the legacy stream, and those that these
              ///< streams came behind (LaunchContext::joined)
};

/// A scope of one context, opened by the constructor and closed by the destructor. The constructor waits twice: before
/// it opens the scope, for the guarded launches that there are then; and after that, for those made meanwhile.
class WaitingScope {
 public:
  explicit WaitingScope(LaunchContext& context, WaitFor what = WaitFor::kAll) noexcept;
  ~WaitingScope();
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;

  /// True: the wait was stuck and ended early (wait_net.h). Guarded launches still run, and they are *kept*: nobody may
  /// ask the process to yield while the scope is open. The caller may make the program's own driver call, but no call
  /// of Cupola's own that could wait for these launches.
  bool is_kept() const noexcept { return is_kept_; }
  /// If is_kept(): the launches stay kept until they are complete, even after the scope is closed.
  void KeepOn() noexcept;

 private:
  LaunchContext& context_;
  bool is_kept_;
};

/// A WaitingScope in two calls. OpenScope returns is_kept, which the caller passes to CloseScope.
[[nodiscard]] bool OpenScope(LaunchContext& context, WaitFor what) noexcept;
void CloseScope(LaunchContext& context, bool is_kept) noexcept;

/// Waits until every stream of the context surely has room for more entries. An entry is what one driver call puts into
/// a stream, such as a launch or a guard. A stream holds about 1,024 of them; a further call waits in the driver until
/// the guards let the stream go on. The entries of all streams are counted together (launch/queued_work.h), and when
/// they are many, this function waits for all guarded launches that there are.
void KeepRoom(LaunchContext& context) noexcept;

/// Called before a plain launch, or another call that puts one entry into a stream, perhaps behind guarded launches.
/// Waits until no thread is between a launch and its guard, so that the entry does not get in between, and until there
/// is room. Counts the entry.
void EnterPlain(LaunchContext& context) noexcept;

/// Called before a call that may put a stream of the context behind work of other streams. If the stream synchronises
/// with the legacy stream, calls that wait for the legacy stream must from now on wait for all launches that are
/// guarded now: raises LaunchContext::joined. A thread that is in such a call already may not have seen that; then this
/// function itself waits for the launches. `per_thread`: the call is of the _ptsz form, in which stream 0 is the
/// calling thread's default stream.
void RecordJoin(LaunchContext& context, CUstream stream, bool per_thread) noexcept;

/// Waits until launch `sequence` of the slot with this index is complete, or GiveUp (guarded_context.h) has given up
/// the context's launches. If the wait is stuck, it ends and the launches are kept until they are complete.
void WaitForSlot(LaunchContext& context, uint32_t index, uint32_t sequence) noexcept;

/// Waits until a slot is free. False: none came free for 0.5 s in which nobody asked the process to
/// yield, or the wait was stuck.
bool WaitForFreeSlot(LaunchContext& context) noexcept;

/// Waits until all guarded launches of the process are complete, or until `deadline_ns`, a time of CLOCK_MONOTONIC.
void WaitAtExit(uint64_t deadline_ns) noexcept;

/// Asks the driver whether the context still works. If not, its launches are given up (GiveUp). False: the context does
/// not work, or it had no guarded launches to begin with (its state is not kReady). Does not wait.
bool IsWell(LaunchContext& context) noexcept;

/// Subscribed to streams_share_queues (facts/live_streams.h), which the thread that makes a stream announces when the
/// process then has more streams than hardware queues. From then on launches go out plain. This function waits, context
/// by context, until no guarded launch is outstanding, unless the streams fit the queues again.
void EndGuardedWhereQueuesAreShared() noexcept;

}  // namespace cupola::intercept::preempt
