// Executable graphs and how many kernel nodes each holds, counted when it is instantiated: nodes of
// child graphs included, bodies of conditional nodes once each. Look-up is lock-free; thread-safe.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept {

/// Kernel nodes of an executable graph; 0 if no hook saw it being made.
uint32_t KernelNodesOf(CUgraphExec exec) noexcept;

/// `exec` was made of `graph`: counts. Asks the driver about each node; waits for nothing.
void NoteInstantiated(CUgraphExec exec, CUgraph graph) noexcept;
void NoteExecDestroyed(CUgraphExec exec) noexcept;

/// A conditional node was added; its bodies are `bodies[0..count)`.
void NoteConditional(CUgraphNode node, const CUgraph* bodies, uint32_t count) noexcept;
void NoteNodeDestroyed(CUgraphNode node) noexcept;

void ResetGraphsAfterFork() noexcept;

}  // namespace cupola::intercept
