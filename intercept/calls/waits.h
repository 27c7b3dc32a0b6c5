// Waits before driver calls of the program where preemption is on (docs/waiting.md): before a waiting
// call, for guarded launches, as the column WAITS of calls.def says; before a stream-ordered call, for room in its
// stream. dispatch.cpp calls these, in the program's threads and inside a HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/launch/demand.h"

namespace cupola::intercept {

struct LaunchContext;

/// A waiting call, from OpenWait until CloseWait: the scopes that are open meanwhile, in which no launch is guarded,
/// and what the call has waited for once it has succeeded.
struct CallWait {
  uint64_t scopes = 0;               ///< bit i: a scope is open in launch_contexts::all[i]
  uint64_t kept = 0;                 ///< bit i: what OpenScope returned for that one
  LaunchContext* context = nullptr;  ///< a scope is open in this one, beside `scopes`
  bool is_context_kept = false;      ///< what OpenScope returned for `context`
  bool is_elsewhere = false;         ///< the call is counted in scopes_elsewhere
  SyncPoint sync;                    ///< for AfterSync
  /// The program held streams before the call. Then the members below are for ReleaseHoldsWaitedFor.
  bool waits_for_held = false;
  bool is_whole_context = false;  ///< the call waits for all of `key.context`, else for the stream `key`
  StreamKey key;                  ///< what the call waits for
  uint64_t holds_before = 0;      ///< number of holds so far, before the call
};

/// Called before waiting call `call` (kCallNames), with its arguments as entry.S has them: waits for the guarded
/// launches that the call's row names, and opens the scopes. May wait as long as the process is asked to yield.
void OpenWait(size_t call, const uint64_t* arguments, CallWait* wait) noexcept;

/// Called after the call: closes the scopes and, if the call succeeded, releases the holds of the program that it has
/// waited for. The caller still has to call AfterSync with `wait.sync`, when it has done everything else.
void CloseWait(const CallWait& wait, bool has_succeeded) noexcept;

/// Called before stream-ordered call `call`: waits for a guard that is being made and for room in the stream, and
/// records it if the call may put its stream behind others.
void WaitForRoom(size_t call, const uint64_t* arguments) noexcept;

}  // namespace cupola::intercept
