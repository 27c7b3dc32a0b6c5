// The flow graph of one PTX function body, and questions that variants ask of it. Borrows from the
// function. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// A straight run of instructions. Scopes in braces do not end it.
struct FlowNode {
  std::vector<const Instruction*> instructions;
  std::vector<uint32_t> next;  ///< nodes that may follow, without duplicates
  bool leaves = false;         ///< a thread may leave the function at its end
  bool in_loop = false;        ///< it may come after itself
};

/// Nodes in the order of the text; the first is where the function begins.
struct FlowGraph {
  std::vector<FlowNode> nodes;
};

/// Builds the graph. Branches whose targets are unknown (a label that is not there, an index list
/// that is not there) may go anywhere.
FlowGraph BuildFlowGraph(const Function& function);

/// Tells whether an instruction makes threads of a block wait for each other.
using IsBarrier = std::function<bool(const Instruction&)>;

/// Whose threads are compared.
enum class Threads : uint8_t {
  kOfBlock,
  kOfWarp,       ///< of one warp, whatever the block's shape
  kOfWarpInRow,  ///< of one warp of a block with one dimension: %tid.x / 32 is the same for all
};

/// Whether a thread may leave the function where another one of its block or warp still comes to a
/// barrier: after a branch on what may differ between them, one way has a barrier that another has
/// not, and some way leads out without a barrier that all have. Branches on what is the same for
/// all of them (parameters, block indices, loop counters, what all load from one address) do not
/// count; what is not known to be the same does (so the answer may be yes where it need not be, not
/// the other way).
bool HasEarlyReturn(const FlowGraph& graph, const IsBarrier& is_barrier,
                    Threads threads = Threads::kOfBlock);

/// Whether some threads of a block may come to a barrier on a way that others do not take, so that
/// threads may leave after different numbers of barriers. Errs as HasEarlyReturn does.
/// `params_differ`: a function's parameters may differ from thread to thread (a kernel's do not).
bool HasDivergentBarrier(const FlowGraph& graph, const IsBarrier& is_barrier, bool params_differ);

}  // namespace cupola::ptx
