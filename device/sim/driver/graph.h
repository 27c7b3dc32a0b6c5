// Graphs: nodes of Work with edges, their executable form, and captures that build a graph from
// stream calls. The Driver and its graph calls create them. As in CUDA, one graph must not be used
// by two threads at a time; the state of captures is guarded by the Engine's mutex.
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
  Graph* graph = nullptr;  ///< its owner
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work;
  std::vector<GraphNode*> dependencies;
  std::shared_ptr<Graph> child;         ///< for CU_GRAPH_NODE_TYPE_GRAPH
  std::vector<void*> param_pointers;    ///< the array that cuGraphKernelNodeGetParams hands out
  const GraphNode* original = nullptr;  ///< in a clone: the node from which this one was made
};

class Graph {
 public:
  GraphNode* Add(CUgraphNodeType type, Work work, std::vector<GraphNode*> dependencies);
  void Remove(GraphNode* node);
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  bool Owns(const GraphNode* node) const;
  /// The nodes in an order that respects the edges; where edges leave a choice, in the order in
  /// which they were added. Has fewer nodes than nodes() when there is a cycle.
  std::vector<GraphNode*> Ordered() const;
  std::shared_ptr<Graph> Clone() const;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

/// An instantiated graph: its steps, with those of child graphs in place, each with its node.
class GraphExec {
 public:
  struct Step {
    const GraphNode* node;
    CUgraphNodeType type;
    std::vector<size_t> after;  ///< indices of earlier steps of the same graph
    Work work;
    bool enabled = true;
  };
  /// CUDA_ERROR_INVALID_VALUE for a graph with a cycle.
  static CUresult Instantiate(const Graph& graph, std::shared_ptr<GraphExec>* exec);

  /// Takes over the work of a graph of the same shape. For another shape it returns
  /// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, with the reason in `result` and the node at fault in
  /// `at`.
  CUresult Update(const Graph& graph, CUgraphExecUpdateResult* result, const GraphNode** at);
  Step* Find(const GraphNode* node);
  /// The order in which a launch runs the steps, as indices: one that the edges allow, chosen by `seed`; 0 = as in
  /// `steps`. The steps of child graphs know of no edge to what is around them, so a graph with one keeps its order.
  std::vector<size_t> Order(uint64_t seed) const;

  std::vector<Step> steps;
  uint64_t flags = 0;  ///< CUDA_GRAPH_INSTANTIATE_FLAG_*
  StreamPoint last;    ///< its last launch, for which the next one waits
};

/// One running capture.
struct Capture {
  uint64_t id = 0;  ///< unique in the process
  std::shared_ptr<Graph> graph;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Stream* origin = nullptr;     ///< the stream in which the capture began
  uint64_t thread = 0;          ///< the thread that began it
  bool is_invalidated = false;  ///< a call broke the capture; ending it returns an error
  bool is_over = false;
  std::vector<std::shared_ptr<Stream>> members;  ///< all streams that are part of the capture
};

/// Whether every node in `needed` is in `from`, or a node in `from` depends on it.
bool Reaches(const std::vector<GraphNode*>& from, const std::vector<GraphNode*>& needed);

}  // namespace cupola::sim
