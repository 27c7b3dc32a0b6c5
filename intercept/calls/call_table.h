// The table of driver calls as the code reads it: a row for each call, resolved when the library is built. calls.def
// has the rows, and explains every column and value. Pure data: no function here, and no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intercept/batches/batches.h"
#include "intercept/process/calls.h"
#include "intercept/tasks/task_rules.h"

namespace cupola::intercept {

/// What a call may do to the calling thread.
enum class CallClass : uint8_t { kPure, kStreamOrdered, kMayWait };

/// Whether Cupola implements a call itself, and how (entry/hooks.def).
enum class HookKind : uint8_t { kNone, kHook, kLaunchHook };

/// Which guarded launches a call that may wait waits for (waits.h).
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

constexpr WaitRule DefaultWaitRule(CallClass call_class) noexcept {
  return call_class == CallClass::kMayWait ? WaitRule::kContext : WaitRule::kNone;
}

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
  HookKind hook = HookKind::kNone;
  WaitRule waits = DefaultWaitRule(call_class);
  tasks::TaskRule tasks = DefaultTaskRule(call_class);
  HoldRule holds = HoldRule::kNone;
  batches::BatchRule ends = batches::BatchRule::kRow;
  bool makes_memory = false;
  bool may_join = false;
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
