// Cuts a graph into pieces: runs of nodes, in an order that respects the edges, that one gate each stands before. No
// CUDA call; any thread. docs/graphs.md.
#pragma once

#include <cstdint>
#include <vector>

namespace cupola::intercept::graphs {

/// What a piece may hold at most.
struct PieceLimits {
  uint64_t ns = 0;       ///< expected time; a node that takes longer is a piece by itself
  uint32_t nodes = 0;    ///< number of nodes
};

/// A run of nodes, by their places in the order.
struct PieceRange {
  uint32_t first = 0;
  uint32_t count = 0;
  uint64_t ns = 0;  ///< expected time of its nodes together
};

/// Pieces in order, which together hold all nodes once. `node_ns[i]`: the expected time of the i-th node. `is_tied[i]`: the
/// graph must not be cut before it, whatever the limits.
std::vector<PieceRange> CutIntoPieces(const std::vector<uint64_t>& node_ns, const std::vector<bool>& is_tied,
                                      const PieceLimits& limits);

/// How long it takes until the piece that is under way has ended, if somebody asks at a moment of which nothing is known:
/// the mean over all moments in nanoseconds, to which long pieces add more than short ones, as they are more of the time.
uint64_t MeanRestNs(const std::vector<PieceRange>& pieces);

/// The order of a graph's nodes 0..count): behind all nodes on which they depend, and otherwise by number, which is the
/// order in which the program added them. `edges`: pairs (from, to). Empty if the edges have a cycle.
std::vector<uint32_t> OrderNodes(uint32_t count, const std::vector<std::pair<uint32_t, uint32_t>>& edges);

/// Takes in what pieces took: the time of a piece is spread over its nodes as they were expected, or evenly where
/// nothing was expected. A node that is a piece by itself is known exactly then.
void LearnFromPieces(const std::vector<PieceRange>& pieces, const std::vector<uint64_t>& piece_ns,
                     std::vector<uint64_t>* node_ns);

}  // namespace cupola::intercept::graphs
