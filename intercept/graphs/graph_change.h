// GraphChange: a change of an executable graph by the program (cuGraphExecUpdate, ...SetParams, cuGraphNodeSetEnabled). The
// change is made to the copy as well, from which the graph's pieces are built anew once it was launched some times without
// another change; until then it is launched whole. A graph that is changed again and again is launched whole for good.
// CUDA Driver API, "Graph Management". One in each hook of such a call; used by its thread.
#pragma once

#include <cuda.h>

#include "intercept/process/mutex_lock.h"

namespace cupola::intercept::graphs {

struct PiecedGraph;

class GraphChange {
 public:
  /// Before the driver's call. From here on the graph is launched whole.
  explicit GraphChange(CUgraphExec exec) noexcept;

  /// After a call that succeeded and changed `node`, which is one of the graph from which `exec` was made: makes the
  /// same change to the copy by `set(node of the copy)`, a call of the driver.
  template <typename Set>
  void OfNode(CUgraphNode node, Set&& set) noexcept {
    if (graph_ == nullptr) return;
    const MutexLock lock(*mutex());
    const CUgraphNode copied = Find(node);
    if (copied == nullptr || set(copied) != CUDA_SUCCESS) GiveUp("a change of it cannot be followed");
  }
  void OfEnabled(CUgraphNode node, bool is_enabled) noexcept;
  /// After cuGraphExecUpdate succeeded.
  void OfAll(CUgraph graph) noexcept;
  /// After a call that failed, or whose change is not followed: the graph is launched whole for good.
  void GiveUp(const char* why) noexcept;

 private:
  pthread_mutex_t* mutex() const noexcept;
  CUgraphNode Find(CUgraphNode node) const noexcept;

  PiecedGraph* graph_ = nullptr;  ///< null: nothing is to be done
};

}  // namespace cupola::intercept::graphs
