// The table of driver calls as the code reads it: a row for each call, resolved when the library is built. calls.def
// has the rows, and explains every column and value: each value of an enumeration here is explained there, in the
// column that the member of CallRow names. dispatch.cpp, waits.cpp and holds.cpp read the table, on any thread. It is
// constant, and has no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intercept/batches/batches.h"
#include "intercept/process/calls.h"
#include "intercept/tasks/task_rules.h"

namespace cupola::intercept {

/// What a call may do to the calling thread: nothing that concerns the device; put work on a stream; or wait.
enum class CallClass : uint8_t { kPure, kStreamOrdered, kMayWait };

/// Whether Cupola implements a call itself, and how (entry/hooks.def).
enum class HookKind : uint8_t { kNone, kHook, kLaunchHook };

/// Which guarded launches Cupola waits for before a waiting call (waits.h).
enum class WaitRule : uint8_t {
  kContext,
  kAllContexts,
  kNone,
  kCopy,
  kCopyHost,
  kCopyUnified,
  kCopy2D,
  kCopy3D,
  kCopyPeer,
  kCopyAsync,
  kFill,
  kSyncContext,
  kSyncNamed,
  kSyncStream,
  kSyncStreamPerThread,
  kSyncEvent,
};

/// How a call concerns holds of the program (holds.h; the glossary says what a hold is).
enum class HoldRule : uint8_t {
  kNone,
  kHolds,
  kHoldsIfItWaits,
  kRecordsEvent,
  kRecordsInContext,
  kWaitsForEvent,
  kWaitsInContext,
  kWaitsInGreenContext,
  kFreesMemory,
  kAllocatesMemory,
  kOpensEvent,
};

/// The value of the column WAITS in a row that does not name it.
constexpr WaitRule DefaultWaitRule(CallClass call_class) noexcept {
  return call_class == CallClass::kMayWait ? WaitRule::kContext : WaitRule::kNone;
}

/// The value of the column TASKS in a row that does not name it.
constexpr tasks::TaskRule DefaultTaskRule(CallClass call_class) noexcept {
  switch (call_class) {
    case CallClass::kMayWait: return tasks::TaskRule::kWaitAndLeave;
    case CallClass::kStreamOrdered: return tasks::TaskRule::kFlush;
    case CallClass::kPure: break;
  }
  return tasks::TaskRule::kNone;
}

/// A row of calls.def, column by column.
struct CallRow {
  CallClass call_class = CallClass::kMayWait;
  HookKind hook = HookKind::kNone;                      ///< HOOK or LAUNCH_HOOK
  WaitRule waits = DefaultWaitRule(call_class);         ///< WAITS
  tasks::TaskRule tasks = DefaultTaskRule(call_class);  ///< TASKS
  HoldRule holds = HoldRule::kNone;                     ///< HOLDS
  batches::BatchRule ends = batches::BatchRule::kRow;   ///< ENDS: what the call ends of launches in batches
  bool makes_memory = false;                            ///< MAKES_MEMORY
  bool may_join = false;                                ///< MAY_JOIN: the call may put its stream behind others
};

/// All rows, indexed by call (process/calls.h).
inline constexpr CallRow kCallTable[kCallCount] = {
#define CUPOLA_CALL(name, its_class, ...) {.call_class = CallClass::its_class __VA_OPT__(, ) __VA_ARGS__},
#define HOOK .hook = HookKind::kHook
#define LAUNCH_HOOK .hook = HookKind::kLaunchHook
#define WAITS(rule) .waits = WaitRule::rule
#define TASKS(rule) .tasks = tasks::TaskRule::rule
#define HOLDS(rule) .holds = HoldRule::rule
#define ENDS(rule) .ends = batches::BatchRule::rule
#define MAKES_MEMORY .makes_memory = true
#define MAY_JOIN .may_join = true
#include "intercept/calls.inc"
#undef MAY_JOIN
#undef MAKES_MEMORY
#undef ENDS
#undef HOLDS
#undef TASKS
#undef WAITS
#undef LAUNCH_HOOK
#undef HOOK
#undef CUPOLA_CALL
};

}  // namespace cupola::intercept
