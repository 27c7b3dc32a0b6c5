#include "intercept/graphs/graph_copy.h"

#include <new>
#include <unordered_map>

#include "intercept/facts/streams.h"
#include "intercept/graphs/piece_cut.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

/// Why a node keeps its graph whole; null: it does not.
const char* WhyWhole(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return nullptr;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "it has child graphs";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "it calls host functions";
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

bool ListNodes(CUgraph graph, std::vector<CUgraphNode>* nodes) {
  const auto get = CUPOLA_CALL_REAL(cuGraphGetNodes, PFN_cuGraphGetNodes_v10000);
  size_t count = 0;
  if (get(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  nodes->resize(count);
  if (count == 0) return true;
  if (get(graph, nodes->data(), &count) != CUDA_SUCCESS || count > nodes->size()) return false;
  nodes->resize(count);
  return true;
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

GraphCopy* GraphCopy::Make(CUgraph graph, uint64_t flags, const char** why) noexcept {
  const auto type_of = CUPOLA_CALL_REAL(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000);
  std::vector<CUgraphNode> handles;
  *why = "the driver does not list its nodes";
  if (!ListNodes(graph, &handles)) return nullptr;
  for (CUgraphNode handle : handles) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (type_of(handle, &type) != CUDA_SUCCESS) return nullptr;
    if (const char* found = WhyWhole(type); found != nullptr) return *why = found, nullptr;
  }
  *why = "it has few nodes";
  if (handles.size() < 2) return nullptr;
  auto* const copy = new (std::nothrow) GraphCopy;
  if (copy == nullptr) return nullptr;
  copy->context_ = CurrentContext();
  copy->flags_ = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  const auto clone = CUPOLA_CALL_REAL(cuGraphClone, PFN_cuGraphClone_v10000);
  *why = "the driver does not copy it";
  if (clone(&copy->graph_, graph) == CUDA_SUCCESS && ListNodes(copy->graph_, &handles)) {
    *why = "its edges carry data";
    if (copy->ReadEdges(handles)) return copy;
    copy->DestroyGraph();
  }
  delete copy;
  return nullptr;
}

GraphCopy::~GraphCopy() = default;

void GraphCopy::DestroyGraph() noexcept {
  if (graph_ != nullptr) (void)CUPOLA_CALL_REAL(cuGraphDestroy, PFN_cuGraphDestroy_v10000)(graph_);
  graph_ = nullptr;
}

// The old form of cuGraphGetEdges refuses a graph whose edges carry data (programmatic launches): such an edge must not
// be cut.
bool GraphCopy::ReadEdges(const std::vector<CUgraphNode>& handles) noexcept {
  const auto get = CUPOLA_CALL_REAL(cuGraphGetEdges, PFN_cuGraphGetEdges_v10000);
  const auto type_of = CUPOLA_CALL_REAL(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000);
  size_t count = 0;
  if (get(graph_, nullptr, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> from(count), to(count);
  if (count != 0 && get(graph_, from.data(), to.data(), &count) != CUDA_SUCCESS) return false;
  std::unordered_map<CUgraphNode, uint32_t> number;
  for (uint32_t i = 0; i < handles.size(); ++i) number[handles[i]] = i;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (size_t e = 0; e < count; ++e) {
    const auto a = number.find(from[e]), b = number.find(to[e]);
    if (a == number.end() || b == number.end()) return false;
    edges.emplace_back(a->second, b->second);
  }
  const std::vector<uint32_t> order = OrderNodes(static_cast<uint32_t>(handles.size()), edges);
  if (order.size() != handles.size()) return false;
  std::vector<uint32_t> place(handles.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  nodes_.resize(handles.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    nodes_[i].handle = handles[order[i]];
    if (type_of(nodes_[i].handle, &nodes_[i].type) != CUDA_SUCCESS) return false;
  }
  for (const auto& [a, b] : edges) nodes_[place[b]].behind.push_back(place[a]);
  return true;
}

// Null: the driver refused. Kernels keep the attributes of their launches.
CUgraphNode GraphCopy::Add(const Node& node, CUgraph into, const std::vector<CUgraphNode>& behind) const noexcept {
  CUgraphNode made = nullptr;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS params{};
      result = CUPOLA_CALL_REAL(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000)(node.handle,
                                                                                                       &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddKernelNode_v2, PFN_cuGraphAddKernelNode_v12000)(&made, into, behind.data(),
                                                                                           behind.size(), &params);
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
          &made, into, behind.data(), behind.size(), &params, context_);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS params{};
      result = CUPOLA_CALL_REAL(cuGraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000)(node.handle, &params);
      if (result != CUDA_SUCCESS) break;
      result = CUPOLA_CALL_REAL(cuGraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000)(
          &made, into, behind.data(), behind.size(), &params, context_);
      break;
    }
    default:
      result = CUPOLA_CALL_REAL(cuGraphAddEmptyNode, PFN_cuGraphAddEmptyNode_v10000)(&made, into, behind.data(),
                                                                                      behind.size());
  }
  return result == CUDA_SUCCESS ? made : nullptr;
}

CUgraphExec GraphCopy::Build(uint32_t first, uint32_t count, const int* priority) const noexcept {
  CUgraph graph = nullptr;
  if (CUPOLA_CALL_REAL(cuGraphCreate, PFN_cuGraphCreate_v10000)(&graph, 0) != CUDA_SUCCESS) return nullptr;
  std::vector<CUgraphNode> made(count), behind;
  bool is_good = true;
  for (uint32_t i = 0; i < count && is_good; ++i) {
    const Node& node = nodes_[first + i];
    behind.clear();
    for (uint32_t place : node.behind) {
      if (place >= first) behind.push_back(made[place - first]);  // plant: edge_lost
    }
    made[i] = Add(node, graph, behind);
    is_good = made[i] != nullptr;
    if (is_good && priority != nullptr && node.type == CU_GRAPH_NODE_TYPE_KERNEL) is_good = SetPriority(made[i], *priority);
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
