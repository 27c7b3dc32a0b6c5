// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, on the reversed graph.
#include "device/compiler/ptx/post_dominators.h"

#include <algorithm>
#include <utility>

namespace cupola::ptx {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

/// The graph with an end node, whose number is the count of the other nodes.
struct WithEnd {
  std::vector<std::vector<uint32_t>> next, before;
};

WithEnd AddEnd(const FlowGraph& graph) {
  const auto end = static_cast<uint32_t>(graph.nodes.size());
  WithEnd all{std::vector<std::vector<uint32_t>>(end + 1),
              std::vector<std::vector<uint32_t>>(end + 1)};
  for (uint32_t i = 0; i < end; ++i) {
    all.next[i] = graph.nodes[i].next;
    if (graph.nodes[i].leaves || graph.nodes[i].next.empty()) all.next[i].push_back(end);
    for (const uint32_t to : all.next[i]) all.before[to].push_back(i);
  }
  return all;
}

/// The nodes from which the end can be reached, each before those that it follows; the end is last.
std::vector<uint32_t> OrderFromEnd(const WithEnd& all, uint32_t end) {
  std::vector<uint32_t> order;
  std::vector<bool> seen(end + 1, false);
  std::vector<std::pair<uint32_t, size_t>> stack{{end, 0}};
  seen[end] = true;
  while (!stack.empty()) {
    const uint32_t node = stack.back().first;
    if (stack.back().second == all.before[node].size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const uint32_t from = all.before[node][stack.back().second++];
    if (seen[from]) continue;
    seen[from] = true;
    stack.emplace_back(from, 0);
  }
  return order;
}

}  // namespace

std::vector<uint32_t> FindMeetings(const FlowGraph& graph) {
  const auto end = static_cast<uint32_t>(graph.nodes.size());
  const WithEnd all = AddEnd(graph);
  const std::vector<uint32_t> order = OrderFromEnd(all, end);
  std::vector<uint32_t> place(end + 1, kUnknown), meeting(end + 1, kUnknown);
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  meeting[end] = end;
  const auto common = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (place[a] < place[b]) a = meeting[a];
      while (place[b] < place[a]) b = meeting[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const uint32_t node = order[i];
      if (node == end) continue;
      uint32_t found = kUnknown;
      for (const uint32_t to : all.next[node]) {
        if (place[to] == kUnknown || meeting[to] == kUnknown) continue;
        found = found == kUnknown ? to : common(found, to);
      }
      changed = changed || meeting[node] != found;
      meeting[node] = found;
    }
  }
  meeting.pop_back();
  for (uint32_t i = 0; i < end; ++i) {
    // A way that goes round for ever never meets the others.
    const bool stuck = std::any_of(all.next[i].begin(), all.next[i].end(),
                                   [&](uint32_t to) { return place[to] == kUnknown; });
    if (meeting[i] == kUnknown || stuck) meeting[i] = end;
  }
  return meeting;
}

std::vector<bool> NodesBeforeMeeting(const FlowGraph& graph, uint32_t branch, uint32_t meeting) {
  std::vector<bool> reached(graph.nodes.size(), false);
  std::vector<uint32_t> work = graph.nodes[branch].next;
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (node == meeting || reached[node]) continue;
    reached[node] = true;
    for (const uint32_t to : graph.nodes[node].next) work.push_back(to);
  }
  return reached;
}

std::vector<bool> NodesOnWay(const FlowGraph& graph, uint32_t branch, uint32_t from,
                             const std::vector<bool>* stops) {
  std::vector<bool> reached(graph.nodes.size(), false);
  std::vector<uint32_t> work{from};
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    if (node == branch || (stops != nullptr && (*stops)[node])) continue;
    for (const uint32_t to : graph.nodes[node].next) work.push_back(to);
  }
  return reached;
}

std::vector<uint32_t> CountWays(const FlowGraph& graph, uint32_t branch) {
  std::vector<uint32_t> ways(graph.nodes.size(), 0);
  for (const uint32_t to : graph.nodes[branch].next) {
    const std::vector<bool> reached = NodesOnWay(graph, branch, to);
    for (size_t k = 0; k < ways.size(); ++k) ways[k] += reached[k];
  }
  return ways;
}

}  // namespace cupola::ptx
