#include "device/sim/driver/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/prng.h"

namespace cupola::sim {

GraphNode* Graph::Add(CUgraphNodeType type, Work work, std::vector<GraphNode*> dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->type = type;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::Remove(GraphNode* node) {
  for (const auto& other : nodes_) std::erase(other->dependencies, node);
  std::erase_if(nodes_, [&](const auto& owned) { return owned.get() == node; });
}

bool Graph::Owns(const GraphNode* node) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& owned) { return owned.get() == node; });
}

std::vector<GraphNode*> Graph::Ordered() const {
  std::vector<GraphNode*> order;
  std::unordered_set<const GraphNode*> placed;
  bool advanced = true;
  while (advanced && order.size() < nodes_.size()) {
    advanced = false;
    for (const auto& node : nodes_) {
      if (placed.count(node.get()) != 0) continue;
      const bool is_ready =
          std::all_of(node->dependencies.begin(), node->dependencies.end(),
                      [&](const GraphNode* before) { return placed.count(before) != 0; });
      if (!is_ready) continue;
      placed.insert(node.get());
      order.push_back(node.get());
      advanced = true;
    }
  }
  return order;
}

std::shared_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twins;
  for (const auto& node : nodes_) {
    GraphNode* twin = clone->Add(node->type, node->work, {});
    twin->original = node.get();
    if (node->child) twin->child = node->child->Clone();
    twins[node.get()] = twin;
  }
  for (const auto& node : nodes_) {
    for (const GraphNode* before : node->dependencies) {
      twins[node.get()]->dependencies.push_back(twins[before]);
    }
  }
  return clone;
}

namespace {

/// Appends the graph's steps, with those of child graphs in place; false for a cycle.
bool Flatten(const Graph& graph, std::vector<GraphExec::Step>& steps) {
  const std::vector<GraphNode*> order = graph.Ordered();
  if (order.size() != graph.nodes().size()) return false;
  std::unordered_map<const GraphNode*, size_t> index;
  for (GraphNode* node : order) {
    if (node->child && !Flatten(*node->child, steps)) return false;
    GraphExec::Step step{node, node->type, {}, node->work};
    for (const GraphNode* before : node->dependencies) step.after.push_back(index[before]);
    std::sort(step.after.begin(), step.after.end());
    index[node] = steps.size();
    steps.push_back(std::move(step));
  }
  return true;
}

}  // namespace

CUresult GraphExec::Instantiate(const Graph& graph, std::shared_ptr<GraphExec>* exec) {
  auto made = std::make_shared<GraphExec>();
  if (!Flatten(graph, made->steps)) return CUDA_ERROR_INVALID_VALUE;
  *exec = std::move(made);
  return CUDA_SUCCESS;
}

CUresult GraphExec::Update(const Graph& graph, CUgraphExecUpdateResult* result,
                           const GraphNode** at) {
  std::vector<Step> fresh;
  *at = nullptr;
  *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!Flatten(graph, fresh) || fresh.size() != steps.size()) {
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (size_t i = 0; i < fresh.size(); ++i) {
    *at = fresh[i].node;
    if (fresh[i].type != steps[i].type) {
      *result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (fresh[i].after != steps[i].after) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  // The steps keep the nodes of the graph that was instantiated, because those nodes are the
  // handles that cuGraphExec*NodeSetParams takes afterwards.
  for (size_t i = 0; i < fresh.size(); ++i) steps[i].work = std::move(fresh[i].work);
  *at = nullptr;
  *result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

std::vector<size_t> GraphExec::Order(uint64_t seed) const {
  const bool has_child = std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.type == CU_GRAPH_NODE_TYPE_GRAPH;
  });
  std::vector<size_t> order, ready, missing(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (seed == 0 || has_child) order.push_back(i);
    missing[i] = steps[i].after.size();
    if (missing[i] == 0) ready.push_back(i);
  }
  Prng prng(seed);
  while (order.size() < steps.size()) {
    std::swap(ready[prng.Below(ready.size())], ready.back());
    const size_t next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (size_t i = next + 1; i < steps.size(); ++i) {
      const auto& after = steps[i].after;
      missing[i] -= std::count(after.begin(), after.end(), next);
      if (missing[i] == 0 && std::find(after.begin(), after.end(), next) != after.end()) ready.push_back(i);
    }
  }
  return order;
}

GraphExec::Step* GraphExec::Find(const GraphNode* node) {
  for (Step& step : steps) {
    if (step.node == node) return &step;
  }
  return nullptr;
}

bool Reaches(const std::vector<GraphNode*>& from, const std::vector<GraphNode*>& needed) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open(from.begin(), from.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return std::all_of(needed.begin(), needed.end(),
                     [&](const GraphNode* node) { return seen.count(node) != 0; });
}

}  // namespace cupola::sim
