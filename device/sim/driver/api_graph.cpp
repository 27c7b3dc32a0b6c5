// The calls cuGraph* for whole graphs, their edges, and executable graphs.
#include <algorithm>
#include <shared_mutex>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

CUresult Find(CUgraph handle, Driver** driver, std::shared_ptr<Graph>* graph) {
  SIM_TRY(Enter(driver));
  *graph = (*driver)->graphs.Find(handle);
  return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Find(CUgraphExec handle, Driver** driver, std::shared_ptr<GraphExec>* exec) {
  SIM_TRY(Enter(driver));
  *exec = (*driver)->graph_execs.Find(handle);
  return *exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUgraphNode Handle(const GraphNode* node) {
  return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(node));
}

/// Lists nodes as all such calls of CUDA do. Without an array, `count` becomes the number of nodes.
/// With an array of `count` elements, it is filled up to its size and the rest becomes null.
CUresult ListNodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? Handle(nodes[i]) : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult ListEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   size_t* count) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  std::vector<GraphNode*> sources, targets;
  for (const auto& node : graph->nodes()) {
    for (GraphNode* before : node->dependencies) {
      sources.push_back(before);
      targets.push_back(node.get());
    }
  }
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; data != nullptr && i < *count; ++i) data[i] = CUgraphEdgeData{};
  size_t filled = *count;
  SIM_TRY(ListNodes(sources, from, &filled));
  return ListNodes(targets, to, count);
}

CUresult ListDependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = driver->FindNode(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return ListNodes(node->dependencies, out, count);
}

CUresult ListDependents(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = driver->FindNode(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after;
  for (const auto& other : node->graph->nodes()) {
    const auto& before = other->dependencies;
    if (std::find(before.begin(), before.end(), node) != before.end()) after.push_back(other.get());
  }
  return ListNodes(after, out, count);
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                     bool adds) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  for (size_t i = 0; i < count; ++i) {
    GraphNode* source = driver->FindNode(from[i]);
    GraphNode* target = driver->FindNode(to[i]);
    if (source == nullptr || target == nullptr || !graph->Owns(source) || !graph->Owns(target)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto& before = target->dependencies;
    const bool has = std::find(before.begin(), before.end(), source) != before.end();
    if (has == adds) return CUDA_ERROR_INVALID_VALUE;
    if (adds) {
      before.push_back(source);
    } else {
      std::erase(before, source);
    }
  }
  return CUDA_SUCCESS;
}

CUresult Instantiate(CUgraphExec* handle, CUgraph graph_handle, unsigned long long flags) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(graph_handle, &driver, &graph));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    SayLacks("cuGraphInstantiate with CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(GraphExec::Instantiate(*graph, &exec));
  exec->flags = flags;
  *handle = reinterpret_cast<CUgraphExec>(driver->graph_execs.Add(exec));
  return CUDA_SUCCESS;
}

CUresult Update(CUgraphExec handle, CUgraph graph_handle, CUgraphNode* at,
                CUgraphExecUpdateResult* result) {
  Driver* driver;
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &exec));
  SIM_TRY(Find(graph_handle, &driver, &graph));
  const GraphNode* node = nullptr;
  CUgraphExecUpdateResult outcome;
  const CUresult status = exec->Update(*graph, &outcome, &node);
  if (at != nullptr) *at = Handle(node);
  if (result != nullptr) *result = outcome;
  return status;
}

}  // namespace

SIM_EXPORT CUresult cuGraphCreate(CUgraph* handle, unsigned int flags) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUgraph>(driver->graphs.Add(std::make_shared<Graph>()));
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  driver->DropNodeHandles(*graph);
  driver->graphs.Take(handle);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph handle) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> twin = graph->Clone();
  driver->AddGraph(twin);
  *clone = reinterpret_cast<CUgraph>(twin.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original,
                                           CUgraph handle) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : graph->nodes()) {
    if (Handle(node->original) != original) continue;
    *found = Handle(node.get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  std::vector<GraphNode*> all;
  for (const auto& node : graph->nodes()) all.push_back(node.get());
  return ListNodes(all, nodes, count);
}

SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  Driver* driver;
  std::shared_ptr<Graph> graph;
  SIM_TRY(Find(handle, &driver, &graph));
  std::vector<GraphNode*> roots;
  for (const auto& node : graph->nodes()) {
    if (node->dependencies.empty()) roots.push_back(node.get());
  }
  return ListNodes(roots, nodes, count);
}

SIM_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                    size_t* count) {
  return ListEdges(graph, from, to, nullptr, count);
}
SIM_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                       CUgraphEdgeData* data, size_t* count) {
  return ListEdges(graph, from, to, data, count);
}
SIM_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return ListDependencies(node, out, count);
}
SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out,
                                                  CUgraphEdgeData* data, size_t* count) {
  for (size_t i = 0; data != nullptr && count != nullptr && i < *count; ++i) data[i] = {};
  return ListDependencies(node, out, count);
}
SIM_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out,
                                                 size_t* count) {
  return ListDependents(node, out, count);
}
SIM_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out,
                                                    CUgraphEdgeData* data, size_t* count) {
  for (size_t i = 0; data != nullptr && count != nullptr && i < *count; ++i) data[i] = {};
  return ListDependents(node, out, count);
}
SIM_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                           const CUgraphNode* to, size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
SIM_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, const CUgraphEdgeData*,
                                              size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
SIM_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}
SIM_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to, const CUgraphEdgeData*,
                                                 size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                unsigned long long flags) {
  return Instantiate(exec, graph, flags);
}
SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* at, char* log,
                                       size_t bytes) {
  if (at != nullptr) *at = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return Instantiate(exec, graph, 0);
}
SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* at,
                                          char* log, size_t bytes) {
  return cuGraphInstantiate(exec, graph, at, log, bytes);
}
SIM_CALL_BOTH(cuGraphInstantiateWithParams, _ptsz,
              (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params),
              (exec, graph, params)) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult status = Instantiate(exec, graph, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out =
      status == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return status;
}

SIM_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  Driver* driver;
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(Find(handle, &driver, &exec));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  return driver->graph_execs.Take(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* at,
                                      CUgraphExecUpdateResult* result) {
  return Update(exec, graph, at, result);
}
SIM_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                         CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  info->errorFromNode = nullptr;
  return Update(exec, graph, &info->errorNode, &info->result);
}

SIM_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node,
                                          unsigned int is_enabled) {
  Driver* driver;
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(Find(handle, &driver, &exec));
  GraphExec::Step* step = exec->Find(reinterpret_cast<const GraphNode*>(node));
  if (step == nullptr) return CUDA_ERROR_INVALID_VALUE;
  step->enabled = is_enabled != 0;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node,
                                          unsigned int* is_enabled) {
  Driver* driver;
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(Find(handle, &driver, &exec));
  const GraphExec::Step* step = exec->Find(reinterpret_cast<const GraphNode*>(node));
  if (step == nullptr || is_enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *is_enabled = step->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

SIM_CALL_BOTH(cuGraphUpload, _ptsz, (CUgraphExec handle, CUstream stream_handle),
              (handle, stream_handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(Find(handle, &driver, &exec));
  return Enter(&driver, &context, stream_handle, null_means,
               &stream);  // there is nothing to upload
}

SIM_CALL_BOTH(cuGraphLaunch, _ptsz, (CUgraphExec handle, CUstream stream_handle),
              (handle, stream_handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<GraphExec> exec;
  SIM_TRY(Find(handle, &driver, &exec));
  SIM_TRY(Enter(&driver, &context, stream_handle, null_means, &stream));
  const std::shared_lock launches(stream->context->launches);
  return driver->LaunchGraph(*exec, *stream);
}
