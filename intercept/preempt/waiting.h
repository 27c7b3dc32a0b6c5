// Waiting (docs/preemption.md): no thread may wait inside the driver for work behind a guard. It may
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

/// A scope of one context. The constructor waits and opens it, the destructor closes it.
class WaitingScope {
 public:
  explicit WaitingScope(LaunchContext& context, WaitFor what = WaitFor::kAll) noexcept;
  ~WaitingScope();
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;

  /// True: the wait was stuck and given up (wait_net.h). Guarded launches still run and are not stopped
  /// while the scope is open. The caller may make the program's own driver call, but none of Cupola's.
  bool is_kept() const noexcept { return is_kept_; }
  /// If is_kept(): the launches are not stopped before they are complete, even after the scope is closed.
  void KeepOn() noexcept;

 private:
  LaunchContext& context_;
  bool is_kept_;
};

/// A WaitingScope in two calls. OpenScope returns is_kept, which the caller passes to CloseScope.
[[nodiscard]] bool OpenScope(LaunchContext& context, WaitFor what) noexcept;
void CloseScope(LaunchContext& context, bool is_kept) noexcept;

/// Waits until every stream of the context surely has room for more entries.
void KeepRoom(LaunchContext& context) noexcept;

/// Called before a plain launch, or another call that puts one entry into a stream, perhaps behind
/// guarded launches: waits until no launch is without its guard, and until there is room.
void EnterPlain(LaunchContext& context) noexcept;

/// Called before a call that may put a stream of the context behind work of other streams. If the stream synchronises
/// with the legacy stream, calls that wait for the legacy stream must from now on wait for all launches that are
/// guarded now: raises LaunchContext::joined. A thread that is in such a call already may not have seen that; then this
/// function itself waits for the launches.
void RecordJoin(LaunchContext& context, CUstream stream, bool per_thread) noexcept;

/// Waits until launch `sequence` of a slot is complete, or the context is given up.
void WaitForSlot(LaunchContext& context, uint32_t index, uint32_t sequence) noexcept;

/// Waits until a slot is free. False: none came free for 0.5 s in which nobody asked the process to
/// yield, or the wait was stuck.
bool WaitForFreeSlot(LaunchContext& context) noexcept;

/// Waits until all guarded launches of the process are complete, or until `deadline_ns`.
void WaitAtExit(uint64_t deadline_ns) noexcept;

/// Asks the driver whether the context still works; if not, gives it up and returns false. Does not
/// wait.
bool IsWell(LaunchContext& context) noexcept;

/// Subscribed to streams_share_queues (facts/live_streams.h), while launches go out plain because there are more
/// streams than queues: waits until no guarded launch is outstanding, or until the streams fit again.
void EndGuardedWhereQueuesAreShared() noexcept;

}  // namespace cupola::intercept::preempt
