// Does what Cupola has to do before and after a driver call that is no launch, on the thread of the program that makes
// it. The generated stubs come here through entry/entry.S while `watched` says so (process/participation.h). entry.S
// calls cupola_enter_..., then makes the call (the driver's, or the hook if the call has one), then calls
// cupola_leave_call if something is left to do. The row of the call (calls.def) says what each part of Cupola has to
// do; the parts are launches in batches, tasks, and, under preemption, waits and holds.
#include <new>

#include "intercept/batches/batches.h"
#include "intercept/calls/call_table.h"
#include "intercept/calls/holds.h"
#include "intercept/calls/waits.h"
#include "intercept/facts/allocations.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_rules.h"

namespace cupola::intercept {
namespace {

/// A call that is under way on this thread, between cupola_enter_may_wait or cupola_enter_stream_ordered, and
/// cupola_leave_call. It lies in the frame of entry.S, which has kCallBytes for it (the same number there).
struct CallUnderWay {
  bool has_raised_depth = false;     ///< this_thread.depth was raised for the call
  bool makes_memory = false;         ///< the column MAKES_MEMORY of the call's row
  uint64_t hold = 0;                 ///< for EndHold
  CUevent* opened_event = nullptr;   ///< where the call will write an event of another process
  tasks::Behind tasks = {};          ///< for tasks::DoBehind
  CallWait wait;                     ///< for CloseWait
};
constexpr size_t kCallBytes = 192;
static_assert(sizeof(CallUnderWay) <= kCallBytes && alignof(CallUnderWay) <= 16);

/// Null while no call is under way.
thread_local constinit CallUnderWay* call_under_way __attribute__((tls_model("initial-exec"))) = nullptr;

// Whether the call is the program's own. A driver call that another call or a hook makes on this thread passes
// straight on.
bool IsLookedAt() { return !InsideHook() && call_under_way == nullptr; }

bool HasTasksBehind(const CallUnderWay& under_way) {
  return under_way.tasks.what != tasks::Behind::What::kNothing;
}

// Says to entry.S that something is to be done after the call, so that it calls cupola_leave_call. A hook raises the
// depth itself; for a call without one it is raised here, so that what the driver calls meanwhile passes straight on.
uint64_t GoOn(const CallRow& row, CallUnderWay& under_way) {
  under_way.has_raised_depth = row.hook == HookKind::kNone;
  if (under_way.has_raised_depth) ++this_thread.depth;
  return 1;
}

// Says to entry.S that nothing is to be done after the call.
uint64_t LetGo() {
  call_under_way = nullptr;
  return 0;
}

}  // namespace

extern "C" {

/// Called by entry.S before waiting call `call` (kCallNames), with the call's register arguments: the first at
/// `arguments[0]`, each next one word below it. `storage` has kCallBytes that last until cupola_leave_call. Returns
/// nonzero if cupola_leave_call is to be called after the call.
__attribute__((visibility("hidden"))) uint64_t cupola_enter_may_wait(uint64_t call, const uint64_t* arguments,
                                                                     void* storage) noexcept {
  if (!IsLookedAt() || (!PreemptionOn() && !TasksOn())) return 0;
  const CallRow& row = kCallTable[call];
  batches::BeforeCall(row.ends);
  call_under_way = new (storage) CallUnderWay{};
  CallUnderWay& under_way = *call_under_way;
  under_way.makes_memory = row.makes_memory;
  {
    const HookScope scope;  // driver calls that Cupola makes here are not the program's
    // Tasks come first: a guarded launch may wait for tasks, but no task waits for a launch.
    if (TasksOn()) under_way.tasks = tasks::BeforeMayWait(row.tasks, call, arguments);
    if (PreemptionOn()) {
      if (row.holds == HoldRule::kOpensEvent) under_way.opened_event = reinterpret_cast<CUevent*>(arguments[0]);
      OpenWait(call, arguments, &under_way.wait);
    }
  }
  return PreemptionOn() || HasTasksBehind(under_way) ? GoOn(row, under_way) : LetGo();
}

/// The same for a stream-ordered call. After most of these nothing is left to do: only tasks and holds need that.
__attribute__((visibility("hidden"))) uint64_t cupola_enter_stream_ordered(uint64_t call, const uint64_t* arguments,
                                                                           void* storage) noexcept {
  if (!IsLookedAt()) return 0;
  const CallRow& row = kCallTable[call];
  batches::BeforeCall(row.ends);
  call_under_way = new (storage) CallUnderWay{};
  CallUnderWay& under_way = *call_under_way;
  {
    const HookScope scope;
    if (TasksOn()) under_way.tasks = tasks::BeforeStreamOrdered(row.tasks, call, arguments);
    if (PreemptionOn()) {
      under_way.hold = BeginHoldOf(call, arguments);
      WaitForRoom(call, arguments);
    }
  }
  return HasTasksBehind(under_way) || under_way.hold != 0 ? GoOn(row, under_way) : LetGo();
}

/// Called by entry.S after a call for which one of the functions above has returned nonzero.
__attribute__((visibility("hidden"))) void cupola_leave_call(CUresult result) noexcept {
  const CallUnderWay& under_way = *call_under_way;
  const bool has_succeeded = result == CUDA_SUCCESS;
  if (under_way.has_raised_depth) --this_thread.depth;
  CloseWait(under_way.wait, has_succeeded);
  preempt::EndHold(under_way.hold);
  if (under_way.opened_event != nullptr && has_succeeded) preempt::AddForeignEvent(*under_way.opened_event);
  if (under_way.makes_memory) OnMemoryMade();
  tasks::DoBehind(under_way.tasks);
  if (has_succeeded) AfterSync(under_way.wait.sync);
  call_under_way = nullptr;  // only now, so that driver calls that the steps above make pass straight on
}

}  // extern "C"
}  // namespace cupola::intercept
