// GraphCopy: a copy of a program's graph, kept so that pieces of it can be built later: the program may change or destroy
// its own graph, and only it may touch that. Made by the thread that instantiates the graph; then used by one thread at a
// time. CUDA Driver API, "Graph Management".
#pragma once

#include <cstdint>
#include <vector>

#include <cuda.h>

namespace cupola::intercept::graphs {

class GraphCopy {
 public:
  /// Copies `graph`. Null if it cannot be launched in pieces; `*why` says why not, in words for people. Does not wait.
  /// `flags` are those with which the program instantiates the graph; it must not have more than `most_nodes`.
  static GraphCopy* Make(CUgraph graph, uint64_t flags, uint32_t most_nodes, const char** why) noexcept;
  ~GraphCopy();
  GraphCopy(const GraphCopy&) = delete;
  GraphCopy& operator=(const GraphCopy&) = delete;

  uint32_t size() const noexcept { return static_cast<uint32_t>(nodes_.size()); }
  /// The same with the nodes of child graphs in place of these. A child graph stays in one piece.
  uint32_t leaves() const noexcept { return leaves_; }
  /// By place in the order: whether the graph must not be cut before that node, because an edge that carries data leads
  /// over that place. Such an edge lets a kernel begin before the one in front of it has ended (programmatic launch).
  const std::vector<bool>& tied() const noexcept { return tied_; }

  /// The node of the copy at that place of the order; null: it is not enabled.
  CUgraphNode EnabledNode(uint32_t place) const noexcept { return nodes_[place].is_enabled ? nodes_[place].handle : nullptr; }

  /// The node of the copy that `node` of the graph became; null: there is none, as for nodes of child graphs.
  CUgraphNode FindCopied(CUgraphNode node) const noexcept;
  /// A node of the copy that is not enabled does nothing in the pieces. False: it is not one of them.
  bool SetEnabled(CUgraphNode copied, bool is_enabled) noexcept;

  /// A graph of the nodes [first, first + count) of the order, with the edges among them, instantiated. Its kernels get
  /// `priority`, where it is not null and the program gave them none. Null: the driver refused. The context of the nodes is
  /// current. May wait for the device.
  CUgraphExec Build(uint32_t first, uint32_t count, const int* priority) const noexcept;

  /// Gives the driver its graph back; without that only memory of this process is freed, for a context that has ended.
  void DestroyGraph() noexcept;

 private:
  struct Node {
    CUgraphNode handle = nullptr;  ///< in graph_
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    bool is_enabled = true;
    std::vector<uint32_t> behind;  ///< places, in the order, of the nodes on which it depends
    std::vector<CUgraphEdgeData> edges;  ///< what the edges from them carry
  };
  struct Edge {
    CUgraphNode from, to;
    CUgraphEdgeData data;
  };
  bool ListEdges(std::vector<Edge>* edges) const noexcept;
  GraphCopy() = default;
  bool ReadEdges(const std::vector<CUgraphNode>& handles) noexcept;
  CUgraphNode Add(const Node& node, CUgraph into) const noexcept;

  CUgraph graph_ = nullptr;
  CUcontext context_ = nullptr;
  uint64_t flags_ = 0;  ///< with which pieces are instantiated
  std::vector<Node> nodes_;  ///< in the order of piece_cut.h
  uint32_t leaves_ = 0;
  std::vector<bool> tied_;
};

}  // namespace cupola::intercept::graphs
