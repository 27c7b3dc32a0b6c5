#include "intercept/graphs/retired_pieces.h"

#include <vector>

#include "intercept/launch/agent_context.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

struct Retired {
  CUcontext context = nullptr;  ///< null: it has ended, and its objects with it
  uint32_t promised = 0;        ///< PieceQueue::promised then
  PieceSet* set = nullptr;
  GraphCopy* copy = nullptr;
};
std::vector<Retired>* retired = nullptr;

// Whether pieces that were put into streams before may still run. A copy keeps what its nodes use (CUDA user objects),
// also after the program has destroyed its own graph.
bool MayRun(const Retired& one) {
  const LaunchContext* const context = FindContext(one.context);
  if (context == nullptr || context->pieces.words_device.load() == 0) return false;
  return static_cast<int32_t>(context->pieces.ended() - one.promised) < 0;
}

// False: not now.
bool Destroy(const Retired& one, bool at_exit) {
  if (one.set != nullptr && one.set->users.load() != 0) return false;
  if (one.context != nullptr && !at_exit) {
    if (one.copy != nullptr && MayRun(one)) return false;
    if (TakeContext(one.context) != CUDA_SUCCESS) return false;
    const OwnCallScope scope;
    if (!scope.may_ask()) return false;
    if (one.copy != nullptr) one.copy->DestroyGraph();
    if (one.set != nullptr) {
      for (CUgraphExec exec : one.set->execs) {
        (void)CUPOLA_CALL_REAL(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000)(exec);
      }
      for (CUevent event : one.set->events) {
        (void)CUPOLA_CALL_REAL(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)(event);
      }
    }
  }
  delete one.set;
  delete one.copy;
  return true;
}

}  // namespace

void Retire(const PiecedGraph& graph, PieceSet* set, GraphCopy* copy) {
  if (set == nullptr && copy == nullptr) return;
  if (retired == nullptr) retired = new std::vector<Retired>;
  const LaunchContext* const context = graph.has_context ? FindContext(graph.context) : nullptr;
  const uint32_t promised = context != nullptr ? context->pieces.promised.load() : 0;
  retired->push_back({graph.has_context ? graph.context : nullptr, promised, set, copy});
}

bool DestroyRetired(const std::atomic<bool>& at_exit) {
  if (retired == nullptr) return false;
  std::erase_if(*retired, [&at_exit](const Retired& one) { return Destroy(one, at_exit.load()); });
  return !retired->empty();
}

void ForgetRetiredOf(CUcontext context) {
  if (retired == nullptr) return;
  for (Retired& one : *retired) {
    if (one.context == context) one.context = nullptr;
  }
}

void ForgetRetiredAfterFork() { retired = nullptr; }

}  // namespace cupola::intercept::graphs
