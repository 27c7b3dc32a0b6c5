// Hooks that learn of executable graphs and of conditional nodes.
// CUDA Driver API, "Graph Management".
#include <cuda.h>

#include "intercept/facts/graphs.h"
#include "intercept/graphs/pieces.h"
#include "intercept/process/calls.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

template <typename CallReal>
CUresult Instantiate(CUgraphExec* exec, CUgraph graph, uint64_t flags, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  const CUresult result = call();
  if (result != CUDA_SUCCESS || exec == nullptr) return result;
  OnGraphInstantiated(*exec, graph);
  graphs::OnInstantiated(*exec, graph, flags);
  return result;
}

// A call that changes what an executable graph does, but not which nodes it has.
template <typename CallReal>
CUresult Change(CUgraphExec exec, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  graphs::OnChanged(exec);
  return call();
}

uint64_t FlagsOf(const CUDA_GRAPH_INSTANTIATE_PARAMS* params) { return params != nullptr ? params->flags : 0; }

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
  return Instantiate(exec, graph, 0, [&] {
    return CUPOLA_REAL(cuGraphInstantiate)(exec, graph, error_node, log, log_bytes);
  });
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node,
                                    char* log, size_t log_bytes) noexcept {
  return Instantiate(exec, graph, 0, [&] {
    return CUPOLA_REAL(cuGraphInstantiate_v2)(exec, graph, error_node, log, log_bytes);
  });
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                          unsigned long long flags) noexcept {
  return Instantiate(exec, graph, flags,
                     [&] { return CUPOLA_REAL(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) noexcept {
  return Instantiate(exec, graph, FlagsOf(params),
                     [&] { return CUPOLA_REAL(cuGraphInstantiateWithParams)(exec, graph, params); });
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* params) noexcept {
  return Instantiate(exec, graph, FlagsOf(params), [&] {
    return CUPOLA_REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params);
  });
}

CUresult hook_cuGraphExecDestroy(CUgraphExec exec) noexcept {
  if (Watching()) {
    const HookScope scope;
    OnGraphExecDestroyed(exec);
    graphs::OnDestroyed(exec);
  }
  return CUPOLA_REAL(cuGraphExecDestroy)(exec);
}

CUresult hook_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* at,
                                CUgraphExecUpdateResult* found) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecUpdate)(exec, graph, at, found); });
}

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* found) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecUpdate_v2)(exec, graph, found); });
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1* params) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecKernelNodeSetParams)(exec, node, params); });
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS* params) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params); });
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                             CUcontext context) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecMemcpyNodeSetParams)(exec, node, params, context); });
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecMemsetNodeSetParams)(exec, node, params, context); });
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphExecNodeSetParams)(exec, node, params); });
}

CUresult hook_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned is_enabled) noexcept {
  return Change(exec, [&] { return CUPOLA_REAL(cuGraphNodeSetEnabled)(exec, node, is_enabled); });
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
