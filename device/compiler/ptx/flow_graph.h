// The flow graph of one PTX function body, and the questions that variants ask of it. Borrows from
// the function. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// A straight run of instructions. A scope in braces does not end it.
struct FlowNode {
  std::vector<const Instruction*> instructions;
  std::vector<uint32_t> next;  ///< nodes that may follow, without duplicates
  bool leaves = false;         ///< a thread may leave the function at the node's end
  bool in_loop = false;        ///< the node may come after itself
};

/// Nodes in the order of the text. The function begins at the first.
struct FlowGraph {
  std::vector<FlowNode> nodes;
};

/// Whether the instruction goes on at a label that it names: bra or brx.
bool IsBranch(const Instruction& instruction);

/// Builds the graph. A branch whose target is unknown (a missing label or list of targets) may go
/// anywhere.
FlowGraph BuildFlowGraph(const Function& function);

/// Tells whether an instruction makes threads of a block wait for each other.
using IsBarrier = std::function<bool(const Instruction&)>;

/// The threads that are compared with each other.
enum class Threads : uint8_t {
  kOfBlock,
  kOfWarp,       ///< of one warp, whatever the block's shape
  kOfWarpInRow,  ///< of one warp of a block with one dimension: %tid.x / 32 is the same
};

/// Whether a thread may leave the function while another one of its block or warp still comes to a
/// barrier. That is so if, after a branch on a value that may differ between them, one way has a
/// barrier that another has not, and some way leads out without a barrier that all ways have.
/// Branches on values that are the same for all these threads (parameters, block indices, loop
/// counters, what all load from one address) do not count; a value that is not known to be the same
/// counts as different. So the answer may be yes where it need not be, but never wrongly no.
bool HasEarlyReturn(const FlowGraph& graph, const IsBarrier& is_barrier,
                    Threads threads = Threads::kOfBlock);

/// Whether some threads of a block may come to a barrier on a way that others do not take, so that
/// threads may leave after different numbers of barriers. Errs towards yes, as HasEarlyReturn does.
/// `params_differ`: the function's parameters may differ from thread to thread (a kernel's do not).
bool HasDivergentBarrier(const FlowGraph& graph, const IsBarrier& is_barrier, bool params_differ);

}  // namespace cupola::ptx
