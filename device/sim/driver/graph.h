// Graphs: nodes of Work with edges, their executable form, and captures that build them from
// stream calls. Like CUDA's own graphs they are not thread-safe; what a capture touches is guarded
// by the engine's mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "device/sim/driver/stream.h"
#include "device/sim/driver/work.h"

namespace cupola::sim {

class Graph;

struct GraphNode {
  Graph* graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work;
  std::vector<GraphNode*> dependencies;
  std::shared_ptr<Graph> child;  ///< CU_GRAPH_NODE_TYPE_GRAPH
  std::vector<void*> param_pointers;  ///< what cuGraphKernelNodeGetParams hands out
  const GraphNode* original = nullptr;  ///< in a clone: the node it was made from
};

class Graph {
 public:
  GraphNode* Add(CUgraphNodeType type, Work work, std::vector<GraphNode*> dependencies);
  void Remove(GraphNode* node);
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  bool Owns(const GraphNode* node) const;
  /// Nodes in an order that respects the edges, else in that of their making; fewer than nodes()
  /// when there is a cycle.
  std::vector<GraphNode*> Ordered() const;
  std::shared_ptr<Graph> Clone() const;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

/// An instantiated graph: the flattened steps, each with the node it came from.
class GraphExec {
 public:
  struct Step {
    const GraphNode* node;
    CUgraphNodeType type;
    std::vector<size_t> after;  ///< indices of earlier steps of the same graph
    Work work;
    bool enabled = true;
  };
  /// CUDA_ERROR_INVALID_VALUE for a cycle.
  static CUresult Instantiate(const Graph& graph, std::shared_ptr<GraphExec>* exec);

  /// Takes the work of a graph of the same shape. Else CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, the
  /// reason in `result` and the node at which it was seen.
  CUresult Update(const Graph& graph, CUgraphExecUpdateResult* result, const GraphNode** at);
  Step* Find(const GraphNode* node);

  std::vector<Step> steps;
  uint64_t flags = 0;
  StreamPoint last;  ///< launches of one executable graph follow one another
};

/// One running capture.
struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Stream* origin = nullptr;
  uint64_t thread = 0;
  bool is_invalidated = false;
  bool is_over = false;
  std::vector<std::shared_ptr<Stream>> members;
};

/// Whether every node in `needed` is one of `from` or something they depend on.
bool Reaches(const std::vector<GraphNode*>& from, const std::vector<GraphNode*>& needed);

}  // namespace cupola::sim
