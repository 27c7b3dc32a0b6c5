// Events and executable graphs that came behind a hold (host_holds.h): a stream that waits for one of them
// is held as well.
#include <atomic>

#include "intercept/facts/graphs.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/participation.h"

namespace cupola::intercept::preempt {
namespace {

constexpr uint64_t kBehindHold = 1, kForeign = 2;
HandleMap events;  // CUevent -> kBehindHold or kForeign
HandleMap graphs;  // CUgraphExec -> the hold that its last launch made (BeginGraph)
// The hold of the last held graph that has nodes which record events: any event may be one of those.
std::atomic<uint64_t> hold_of_any_event{0};

bool IsOver(CUevent event) {
  const RelaxedCapture relaxed;
  return CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000)(event) != CUDA_ERROR_NOT_READY;
}

}  // namespace

void OnEventRecorded(CUevent event, const StreamKey& key, CUstream stream, bool per_thread) noexcept {
  if (events.Find(event, 0) == kForeign) return;
  if (IsHeld(key, stream, per_thread)) {
    events.Set(event, kBehindHold);
  } else {
    events.Erase(event);
  }
}

void OnEventRecordedInContext(CUevent event) noexcept {
  if (AnyIsHeld()) events.Set(event, kBehindHold);
}

void AddForeignEvent(CUevent event) noexcept {
  static std::atomic_flag watches;  // never undone: from now on waits for events must be looked at
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

// A launch of an executable graph runs behind the graph's last launch, so it is held if that was.
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
