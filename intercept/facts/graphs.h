// Executable graphs, how many kernel nodes each has, and whether it may wait for the program, looked up
// when it is instantiated: nodes of child graphs included, bodies of conditional nodes once each. Look-up
// is lock-free; thread-safe.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept {

struct GraphNodes {
  uint32_t kernels = 0;
  /// It has a node for which what comes behind the graph may wait until the program does something: of a
  /// function of the host, an external semaphore, an event, a word.
  bool may_hold = false;
  bool record_events = false;  ///< it has a node that records an event
};

/// Of an executable graph; if no hook saw it being made, no kernels, and all that it might have else.
GraphNodes NodesOf(CUgraphExec exec) noexcept;
inline uint32_t KernelNodesOf(CUgraphExec exec) noexcept { return NodesOf(exec).kernels; }

/// `exec` was made of `graph`: counts. Asks the driver about each node; waits for nothing.
void NoteInstantiated(CUgraphExec exec, CUgraph graph) noexcept;
void NoteExecDestroyed(CUgraphExec exec) noexcept;

/// A conditional node was added; its bodies are `bodies[0..count)`.
void NoteConditional(CUgraphNode node, const CUgraph* bodies, uint32_t count) noexcept;
void NoteNodeDestroyed(CUgraphNode node) noexcept;

void ResetGraphsAfterFork() noexcept;

}  // namespace cupola::intercept
