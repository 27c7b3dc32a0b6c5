// Events, executable graphs and freed memory that came behind what the program holds: who waits for them
// is held as well.
#include <atomic>

#include "intercept/facts/graphs.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"

namespace cupola::intercept::preempt {
namespace {

constexpr uint64_t kBehindHold = 1, kForeign = 2;
HandleMap events;  // CUevent -> one of these
HandleMap graphs;  // CUgraphExec -> the hold that its last launch came behind
// A hold behind which a graph with nodes that record events was launched: any event may be one of these.
std::atomic<uint64_t> hold_of_any_event{0};

bool IsOver(CUevent event) {
  const RelaxedCapture relaxed;
  return CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000)(event) != CUDA_ERROR_NOT_READY;
}

}  // namespace

void NoteRecorded(CUevent event, const StreamKey& key, CUstream stream, bool per_thread) noexcept {
  if (events.Find(event, 0) == kForeign) return;
  if (IsHeld(key, stream, per_thread)) {
    events.Set(event, kBehindHold);
  } else {
    events.Erase(event);
  }
}

void NoteRecordedInAll(CUevent event) noexcept {
  if (AnyIsHeld()) events.Set(event, kBehindHold);
}

void NoteForeignEvent(CUevent event) noexcept {
  static std::atomic_flag watches;  // for good: waits for it are to be looked at
  if (!watches.test_and_set()) Watch(1);
  events.Set(event, kForeign);
}

bool MayHold(CUevent event) noexcept {
  const uint64_t known = events.Find(event, 0);
  if (known == 0 && !IsStillHeld(hold_of_any_event.load())) return false;
  if (!IsOver(event)) return true;
  if (known == kBehindHold) events.Erase(event);
  return false;
}

// A launch of it comes behind its last one.
uint64_t BeginGraph(CUgraphExec exec, const StreamKey& key, CUstream stream,
                    bool per_thread) noexcept {
  const GraphNodes nodes = NodesOf(exec);
  if (!nodes.may_hold && !AnyIsHeld()) return 0;
  const bool is_held =
      nodes.may_hold || IsStillHeld(graphs.Find(exec, 0)) || IsHeld(key, stream, per_thread);
  if (!is_held) {
    graphs.Erase(exec);
    return 0;
  }
  const uint64_t hold = BeginHold(key, stream, per_thread);
  graphs.Set(exec, hold);
  if (nodes.record_events) hold_of_any_event.store(hold);
  return hold;
}

void ForgetHeldEventsAfterFork() noexcept {
  events.ResetAfterFork();
  graphs.ResetAfterFork();
  hold_of_any_event.store(0);
}

}  // namespace cupola::intercept::preempt
