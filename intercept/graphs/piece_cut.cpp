#include "intercept/graphs/piece_cut.h"

#include <functional>
#include <queue>

namespace cupola::intercept::graphs {

std::vector<PieceRange> CutIntoPieces(const std::vector<uint64_t>& node_ns, const std::vector<bool>& is_tied,
                                      const PieceLimits& limits) {
  std::vector<PieceRange> pieces;
  PieceRange open;
  for (uint32_t i = 0; i < node_ns.size(); ++i) {
    const bool is_full = open.ns + node_ns[i] > limits.ns || open.count >= limits.nodes;
    if (open.count != 0 && is_full && !is_tied[i]) {
      pieces.push_back(open);
      open = {.first = i};
    }
    ++open.count;
    open.ns += node_ns[i];
  }
  if (open.count != 0) pieces.push_back(open);
  return pieces;
}

uint64_t MeanRestNs(const std::vector<PieceRange>& pieces) {
  double all_ns = 0, squares = 0;
  for (const PieceRange& piece : pieces) {
    const auto ns = static_cast<double>(piece.ns);
    all_ns += ns;
    squares += ns * ns;
  }
  return all_ns > 0 ? static_cast<uint64_t>(squares / all_ns / 2) : 0;
}

std::vector<uint32_t> OrderNodes(uint32_t count, const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
  std::vector<uint32_t> before(count, 0);            // edges to a node whose start is not in the order yet
  std::vector<std::vector<uint32_t>> after(count);
  for (const auto& [from, to] : edges) {
    ++before[to];
    after[from].push_back(to);
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t node = 0; node < count; ++node) {
    if (before[node] == 0) ready.push(node);
  }
  std::vector<uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const uint32_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (uint32_t next : after[node]) {
      if (--before[next] == 0) ready.push(next);
    }
  }
  if (order.size() != count) order.clear();
  return order;
}

void LearnFromPieces(const std::vector<PieceRange>& pieces, const std::vector<uint64_t>& piece_ns,
                     std::vector<uint64_t>* node_ns) {
  for (size_t p = 0; p < pieces.size() && p < piece_ns.size(); ++p) {
    const PieceRange& piece = pieces[p];
    uint64_t expected = 0;
    for (uint32_t i = 0; i < piece.count; ++i) expected += (*node_ns)[piece.first + i];
    for (uint32_t i = 0; i < piece.count; ++i) {
      uint64_t& node = (*node_ns)[piece.first + i];
      node = expected == 0 ? piece_ns[p] / piece.count
                           : static_cast<uint64_t>(static_cast<double>(piece_ns[p]) * static_cast<double>(node) /
                                                   static_cast<double>(expected));
    }
  }
}

}  // namespace cupola::intercept::graphs
