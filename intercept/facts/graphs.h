// What is known of each executable graph: how many kernel nodes it has, and whether its launches may wait for
// the program. Hooks find that out when the graph is instantiated. Nodes of child graphs are included, bodies
// of conditional nodes once each. Look-ups are lock-free. Any thread.
#pragma once

#include <cstdint>

#include <vector>

#include <cuda.h>

namespace cupola::intercept {

struct GraphNodes {
  uint32_t kernels = 0;  ///< number of kernel nodes
  /// It has a node that can make what comes behind the graph wait for the program: a host function, or a
  /// wait for an external semaphore, an event or a memory word.
  bool may_hold = false;
  bool record_events = false;  ///< it has a node that records an event
};

/// The nodes of an executable graph. If no hook saw it being made: no kernels, and both flags true.
GraphNodes NodesOf(CUgraphExec exec) noexcept;
inline uint32_t KernelNodesOf(CUgraphExec exec) noexcept { return NodesOf(exec).kernels; }

/// The nodes of a graph, in the order in which they were added. False: the driver does not list them. Does not wait.
bool ListGraphNodes(CUgraph graph, std::vector<CUgraphNode>* nodes) noexcept;

/// `exec` was made of `graph`: counts its nodes. Asks the driver about each node, and does not wait.
void OnGraphInstantiated(CUgraphExec exec, CUgraph graph) noexcept;
void OnGraphExecDestroyed(CUgraphExec exec) noexcept;

/// A conditional node was added; its bodies are `bodies[0..count)`.
void AddConditionalNode(CUgraphNode node, const CUgraph* bodies, uint32_t count) noexcept;
void OnGraphNodeDestroyed(CUgraphNode node) noexcept;

void ResetGraphsAfterFork() noexcept;

}  // namespace cupola::intercept
