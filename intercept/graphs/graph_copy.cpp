#include "intercept/graphs/graph_copy.h"

#include <new>
#include <unordered_map>

#include "intercept/facts/graphs.h"
#include "intercept/facts/streams.h"
#include "intercept/graphs/node_kernel.h"
#include "intercept/graphs/piece_cut.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

/// Why nodes of this kind keep their graph whole; null: they do not.
const char* WhyWhole(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:  // its own nodes are looked at
      return nullptr;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "it allocates or frees memory";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "it has conditional nodes";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "it records or waits for events";
    default:
      return "it has nodes that wait for others, or of an unknown kind";
  }
}

/// Looks through the nodes of a graph and of its child graphs. Counts those that are no child graphs; null: it can be cut.
const char* LookThrough(CUgraph graph, uint32_t* leaves) {
  const auto type_of = CUPOLA_CALL_REAL(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000);
  const auto child_of = CUPOLA_CALL_REAL(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000);
  constexpr const char* kUnlisted = "the driver does not list its nodes";
  std::vector<CUgraphNode> handles;
  if (!ListGraphNodes(graph, &handles)) return kUnlisted;
  for (CUgraphNode handle : handles) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (type_of(handle, &type) != CUDA_SUCCESS) return kUnlisted;
    if (const char* const why = WhyWhole(type); why != nullptr) return why;
    if (type != CU_GRAPH_NODE_TYPE_GRAPH) {
      ++*leaves;
      continue;
    }
    CUgraph child = nullptr;
    if (child_of(handle, &child) != CUDA_SUCCESS) return kUnlisted;
    if (const char* const why = LookThrough(child, leaves); why != nullptr) return why;
  }
  return nullptr;
}

bool CarriesData(const CUgraphEdgeData& data) { return data.from_port != 0 || data.to_port != 0 || data.type != 0; }

bool AddEdge(CUgraph graph, CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  const CUresult result =
      CarriesData(data)
          ? CUPOLA_CALL_REAL(cuGraphAddDependencies_v2, PFN_cuGraphAddDependencies_v12030)(graph, &from, &to, &data, 1)
          : CUPOLA_CALL_REAL(cuGraphAddDependencies, PFN_cuGraphAddDependencies_v10000)(graph, &from, &to, 1);
  return result == CUDA_SUCCESS;
}

/// Gives a kernel node the priority, unless it has one. False: the driver refused.
bool SetPriority(CUgraphNode node, int priority) {
  CUlaunchAttributeValue value{};
  const CUresult found = CUPOLA_CALL_REAL(cuGraphKernelNodeGetAttribute, PFN_cuGraphKernelNodeGetAttribute_v11000)(
      node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
  if (found == CUDA_SUCCESS && value.priority != 0) return true;
  value.priority = priority;
  return CUPOLA_CALL_REAL(cuGraphKernelNodeSetAttribute, PFN_cuGraphKernelNodeSetAttribute_v11000)(
             node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value) == CUDA_SUCCESS;
}

}  // namespace

GraphCopy* GraphCopy::Make(CUgraph graph, uint64_t flags, uint32_t most_nodes, const char** why) noexcept {
  uint32_t leaves = 0;
  *why = LookThrough(graph, &leaves);
  if (*why != nullptr) return nullptr;
  *why = "it has more nodes than the driver takes without waiting";
  if (leaves > most_nodes) return nullptr;
  std::vector<CUgraphNode> handles;
  *why = "it has few nodes";
  if (!ListGraphNodes(graph, &handles) || handles.empty()) return nullptr;
  if (handles.size() == 1 && !HasVariant(handles[0])) return nullptr;
  auto* const copy = new (std::nothrow) GraphCopy;
  if (copy == nullptr) return nullptr;
  copy->context_ = CurrentContext();
  copy->leaves_ = leaves;
  copy->flags_ = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  const auto clone = CUPOLA_CALL_REAL(cuGraphClone, PFN_cuGraphClone_v10000);
  *why = "the driver does not copy it";
  if (clone(&copy->graph_, graph) == CUDA_SUCCESS && ListGraphNodes(copy->graph_, &handles)) {
    *why = "the driver does not list its edges";
    if (copy->ReadEdges(handles)) return copy;
    copy->DestroyGraph();
  }
  delete copy;
  return nullptr;
}

GraphCopy::~GraphCopy() = default;

CUgraphNode GraphCopy::FindCopied(CUgraphNode node) const noexcept {
  CUgraphNode found = nullptr;
  const CUresult result =
      CUPOLA_CALL_REAL(cuGraphNodeFindInClone, PFN_cuGraphNodeFindInClone_v10000)(&found, node, graph_);
  return result == CUDA_SUCCESS ? found : nullptr;
}

bool GraphCopy::SetEnabled(CUgraphNode copied, bool is_enabled) noexcept {
  for (Node& node : nodes_) {
    if (node.handle != copied) continue;
    node.is_enabled = is_enabled;
    return true;
  }
  return false;
}

void GraphCopy::DestroyGraph() noexcept {
  if (graph_ != nullptr) (void)CUPOLA_CALL_REAL(cuGraphDestroy, PFN_cuGraphDestroy_v10000)(graph_);
  graph_ = nullptr;
}

// The old form of cuGraphGetEdges, of drivers before 12.3, knows no data.
bool GraphCopy::ListEdges(std::vector<Edge>* edges) const noexcept {
  const auto get = CUPOLA_CALL_REAL(cuGraphGetEdges_v2, PFN_cuGraphGetEdges_v12030);
  const auto get_old = CUPOLA_CALL_REAL(cuGraphGetEdges, PFN_cuGraphGetEdges_v10000);
  size_t count = 0;
  const CUresult asked = get(graph_, nullptr, nullptr, nullptr, &count);
  const bool is_new = asked == CUDA_SUCCESS || asked == CUDA_ERROR_LOSSY_QUERY;
  if (!is_new && get_old(graph_, nullptr, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count == 0) return true;
  const CUresult result = is_new ? get(graph_, from.data(), to.data(), data.data(), &count)
                                 : get_old(graph_, from.data(), to.data(), &count);
  if (result != CUDA_SUCCESS || count > from.size()) return false;
  for (size_t e = 0; e < count; ++e) edges->push_back({from[e], to[e], data[e]});
  return true;
}

bool GraphCopy::ReadEdges(const std::vector<CUgraphNode>& handles) noexcept {
  const auto type_of = CUPOLA_CALL_REAL(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000);
  std::vector<Edge> edges;
  if (!ListEdges(&edges)) return false;
  std::unordered_map<CUgraphNode, uint32_t> number;
  for (uint32_t i = 0; i < handles.size(); ++i) number[handles[i]] = i;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Edge& edge : edges) {
    const auto a = number.find(edge.from), b = number.find(edge.to);
    if (a == number.end() || b == number.end()) return false;
    pairs.emplace_back(a->second, b->second);
  }
  const std::vector<uint32_t> order = OrderNodes(static_cast<uint32_t>(handles.size()), pairs);
  if (order.size() != handles.size()) return false;
  std::vector<uint32_t> place(handles.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  nodes_.resize(handles.size());
  tied_.assign(handles.size(), false);
  for (uint32_t i = 0; i < order.size(); ++i) {
    nodes_[i].handle = handles[order[i]];
    if (type_of(nodes_[i].handle, &nodes_[i].type) != CUDA_SUCCESS) return false;
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    const uint32_t from = place[pairs[e].first], to = place[pairs[e].second];
    nodes_[to].behind.push_back(from);
    nodes_[to].edges.push_back(edges[e].data);
    for (uint32_t i = from + 1; CarriesData(edges[e].data) && i <= to; ++i) tied_[i] = true;
  }
  return true;
}

// Null: the driver refused. Kernels keep the attributes of their launches.
CUgraphNode GraphCopy::Add(const Node& node, CUgraph into) const noexcept {
  CUgraphNode made = nullptr;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  switch (node.is_enabled ? node.type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS params{};
      result = CUPOLA_CALL_REAL(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000)(node.handle,
                                                                                                       &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddKernelNode_v2, PFN_cuGraphAddKernelNode_v12000)(&made, into, nullptr, 0,
                                                                                           &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphKernelNodeCopyAttributes, PFN_cuGraphKernelNodeCopyAttributes_v11000)(
          made, node.handle);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      CUDA_MEMCPY3D params{};
      result = CUPOLA_CALL_REAL(cuGraphMemcpyNodeGetParams, PFN_cuGraphMemcpyNodeGetParams_v10000)(node.handle, &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000)(
          &made, into, nullptr, 0, &params, context_);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS params{};
      result = CUPOLA_CALL_REAL(cuGraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000)(node.handle, &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000)(
          &made, into, nullptr, 0, &params, context_);
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS params{};
      result = CUPOLA_CALL_REAL(cuGraphHostNodeGetParams, PFN_cuGraphHostNodeGetParams_v10000)(node.handle, &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddHostNode, PFN_cuGraphAddHostNode_v10000)(&made, into, nullptr, 0, &params);
      break;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      CUgraph child = nullptr;
      result = CUPOLA_CALL_REAL(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000)(node.handle,
                                                                                                          &child);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddChildGraphNode, PFN_cuGraphAddChildGraphNode_v10000)(&made, into, nullptr, 0,
                                                                                                child);
      break;
    }
    default:
      result = CUPOLA_CALL_REAL(cuGraphAddEmptyNode, PFN_cuGraphAddEmptyNode_v10000)(&made, into, nullptr, 0);
  }
  return result == CUDA_SUCCESS ? made : nullptr;
}

CUgraphExec GraphCopy::Build(uint32_t first, uint32_t count, const int* priority) const noexcept {
  CUgraph graph = nullptr;
  if (CUPOLA_CALL_REAL(cuGraphCreate, PFN_cuGraphCreate_v10000)(&graph, 0) != CUDA_SUCCESS) return nullptr;
  std::vector<CUgraphNode> made(count);
  bool is_good = true;
  for (uint32_t i = 0; i < count && is_good; ++i) {
    const Node& node = nodes_[first + i];
    made[i] = Add(node, graph);
    is_good = made[i] != nullptr;
    const bool is_kernel = node.type == CU_GRAPH_NODE_TYPE_KERNEL && node.is_enabled;
    if (is_good && priority != nullptr && is_kernel) is_good = SetPriority(made[i], *priority);
    for (size_t e = 0; e < node.behind.size() && is_good; ++e) {
      const uint32_t place = node.behind[e];
      if (place >= first) is_good = AddEdge(graph, made[place - first], made[i], node.edges[e]);  // plant: edge_lost
    }
  }
  CUgraphExec exec = nullptr;
  const uint64_t flags = flags_ | (priority != nullptr ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0);
  if (is_good && CUPOLA_CALL_REAL(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040)(
                     &exec, graph, flags) != CUDA_SUCCESS) {
    exec = nullptr;
  }
  (void)CUPOLA_CALL_REAL(cuGraphDestroy, PFN_cuGraphDestroy_v10000)(graph);
  return exec;
}

}  // namespace cupola::intercept::graphs
