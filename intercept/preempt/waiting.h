// Waiting (docs/preemption.md): behind a guard nothing may wait inside the driver, for the waiting
// thread may hold what the resuming launch needs, and both hang. So a call that may wait first
// waits here, while the process can still be stopped and resumed, until no guarded launch is
// outstanding; then it opens a scope, in which other threads' launches go out plain; then it calls
// the driver. Which call waits for what: waiting_rules.cpp. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/preempt/launch_slots.h"

namespace cupola::intercept::preempt {

struct PreemptContext;

/// Which guarded launches a call is to wait for.
enum class WaitFor : uint8_t {
  kAll,
  kBlocking,  ///< those on streams that synchronise with the legacy stream, and what these joined
};

/// A scope of one context: waits, then holds it open.
class WaitingScope {
 public:
  explicit WaitingScope(PreemptContext& context, WaitFor what = WaitFor::kAll) noexcept;
  ~WaitingScope();
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;

  /// The wait would not have ended (wait_net.h): launches go on, and are not stopped while the scope is
  /// open. What is not the program's own call is not to be made.
  bool is_kept() const noexcept { return is_kept_; }
  /// They are not stopped until they are complete, also when the scope is closed.
  void KeepOn() noexcept;

 private:
  PreemptContext& context_;
  bool is_kept_;
};

/// The same for what Cupola itself asks the driver in the calling thread's context, outside of
/// preemption: a question about a kernel may load it. Nothing where preemption is off.
class OwnCallScope {
 public:
  OwnCallScope() noexcept;
  ~OwnCallScope();
  OwnCallScope(const OwnCallScope&) = delete;
  OwnCallScope& operator=(const OwnCallScope&) = delete;

  /// False: the driver is not to be asked, for what it may wait for may not end before the program goes on.
  bool may_ask() const noexcept { return may_ask_; }

 private:
  PreemptContext* context_ = nullptr;
  bool elsewhere_ = false, is_kept_ = false, may_ask_ = true;
};

/// Calls that may wait, of threads whose context preemption does not know yet: while there are any,
/// no launch is guarded.
extern std::atomic<uint32_t> scopes_elsewhere;

/// The same in two calls: the second with what the first has returned, WaitingScope::is_kept.
[[nodiscard]] bool OpenScope(PreemptContext& context, WaitFor what) noexcept;
void CloseScope(PreemptContext& context, bool is_kept) noexcept;

/// Waits until a stream surely has room for more work.
void KeepRoom(PreemptContext& context) noexcept;

/// Before a launch without a guard, or another call that puts one entry into a stream, perhaps
/// behind guarded launches: waits for a guard that is being made, and for room.
void EnterPlain(PreemptContext& context) noexcept;

/// Before a call that may put a stream of the context behind what other streams hold: where it
/// synchronises with the legacy stream, who waits for that waits for all that is guarded now. Whoever is about to, or
/// does in the driver, may not have seen it: then this waits instead.
void NoteJoin(PreemptContext& context, CUstream stream, bool per_thread) noexcept;

/// Waits until launch `sequence` of a slot is complete, or the context is given up.
void WaitForSlot(PreemptContext& context, uint32_t index, uint32_t sequence) noexcept;

/// Waits until a slot is free. False: none came free although launches were not held.
bool WaitForFreeSlot(PreemptContext& context) noexcept;

/// Waits for all guarded launches of the process until `deadline_ns`.
void WaitAtExit(uint64_t deadline_ns) noexcept;

/// Asks the driver whether the context still works, and gives it up where not. Does not wait.
bool IsWell(PreemptContext& context) noexcept;

/// For streams_share_queues (facts/live_streams.h): waits until no guarded launch is outstanding, or until the streams
/// fit again; what is launched from now on goes out plain.
void EndGuardedWhereQueuesAreShared() noexcept;

/// Kernels that have been launched, or whose first launch need not be waited for.
bool IsKnownLoaded(const void* function) noexcept;
void NoteLoaded(const void* function) noexcept;
/// Code was unloaded: a handle may now mean another kernel.
void ForgetLoaded() noexcept;

/// Makes the table of rules; called once.
void StartWaitingRules() noexcept;

}  // namespace cupola::intercept::preempt
