// Where the ways of a branch lead, and where they meet again. Internal to the folder. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "device/compiler/ptx/flow_graph.h"

namespace cupola::ptx {

/// For each node, its immediate post-dominator: the first node behind it that every way from it to
/// the function's end passes. The number of nodes stands for the end itself, also where a node
/// cannot reach the end.
std::vector<uint32_t> FindMeetings(const FlowGraph& graph);

/// The nodes that may come behind `branch` before its ways meet at `meeting`. `branch` is among
/// them if it may come again.
std::vector<bool> NodesBeforeMeeting(const FlowGraph& graph, uint32_t branch, uint32_t meeting);

/// The nodes that may come after `branch` by its way to the node `from`, up to and including `branch` itself and the
/// nodes that `stops` (may be null) marks.
std::vector<bool> NodesOnWay(const FlowGraph& graph, uint32_t branch, uint32_t from,
                             const std::vector<bool>* stops = nullptr);

/// By node: on how many of the ways of `branch` it lies (NodesOnWay).
std::vector<uint32_t> CountWays(const FlowGraph& graph, uint32_t branch);

}  // namespace cupola::ptx
