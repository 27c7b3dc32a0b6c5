// Hooks that learn of executable graphs and of conditional nodes.
// CUDA Driver API, "Graph Management".
#include <cuda.h>

#include "intercept/facts/graphs.h"
#include "intercept/process/calls.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

template <typename CallReal>
CUresult Instantiate(CUgraphExec* exec, CUgraph graph, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  const CUresult result = call();
  if (result == CUDA_SUCCESS && exec != nullptr) OnGraphInstantiated(*exec, graph);
  return result;
}

template <typename CallReal>
CUresult AddNode(CUgraphNode* node, const CUgraphNodeParams* params, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  const CUresult result = call();
  if (result == CUDA_SUCCESS && node != nullptr && params != nullptr &&
      params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    AddConditionalNode(*node, params->conditional.phGraph_out, params->conditional.size);
  }
  return result;
}

}  // namespace

extern "C" {

CUresult hook_cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node,
                                 char* log, size_t log_bytes) noexcept {
  return Instantiate(exec, graph, [&] {
    return CUPOLA_REAL(cuGraphInstantiate)(exec, graph, error_node, log, log_bytes);
  });
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node,
                                    char* log, size_t log_bytes) noexcept {
  return Instantiate(exec, graph, [&] {
    return CUPOLA_REAL(cuGraphInstantiate_v2)(exec, graph, error_node, log, log_bytes);
  });
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                          unsigned long long flags) noexcept {
  return Instantiate(exec, graph,
                     [&] { return CUPOLA_REAL(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) noexcept {
  return Instantiate(
      exec, graph, [&] { return CUPOLA_REAL(cuGraphInstantiateWithParams)(exec, graph, params); });
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* params) noexcept {
  return Instantiate(exec, graph, [&] {
    return CUPOLA_REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params);
  });
}

CUresult hook_cuGraphExecDestroy(CUgraphExec exec) noexcept {
  if (Watching()) OnGraphExecDestroyed(exec);
  return CUPOLA_REAL(cuGraphExecDestroy)(exec);
}

CUresult hook_cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count, CUgraphNodeParams* params) noexcept {
  return AddNode(node, params, [&] {
    return CUPOLA_REAL(cuGraphAddNode)(node, graph, dependencies, count, params);
  });
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                const CUgraphEdgeData* edges, size_t count,
                                CUgraphNodeParams* params) noexcept {
  return AddNode(node, params, [&] {
    return CUPOLA_REAL(cuGraphAddNode_v2)(node, graph, dependencies, edges, count, params);
  });
}

CUresult hook_cuGraphDestroyNode(CUgraphNode node) noexcept {
  if (Watching()) OnGraphNodeDestroyed(node);
  return CUPOLA_REAL(cuGraphDestroyNode)(node);
}

}  // extern "C"
}  // namespace cupola::intercept
