// Hooks that learn of executable graphs and of conditional nodes.
// CUDA Driver API, "Graph Management".
#include <cuda.h>

#include "intercept/facts/graphs.h"
#include "intercept/graphs/graph_change.h"
#include "intercept/graphs/pieces.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
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

// A call that changes what an executable graph does, but not which nodes it has. `follow(change)` makes the change to the
// copy from which its pieces are built.
template <typename CallReal, typename Follow>
CUresult Change(CUgraphExec exec, CallReal&& call, Follow&& follow) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  graphs::GraphChange change(exec);
  const CUresult result = call();
  if (result == CUDA_SUCCESS) {
    follow(change);
  } else {
    change.GiveUp("a change of it failed");
  }
  return result;
}

// The same for the parameters of one node; `set` sets those of a node of the copy.
template <typename CallReal, typename Set>
CUresult ChangeNode(CUgraphExec exec, CUgraphNode node, CallReal&& call, Set&& set) noexcept {
  return Change(exec, call, [&](graphs::GraphChange& change) { change.OfNode(node, set); });
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
  return Change(
      exec, [&] { return CUPOLA_REAL(cuGraphExecUpdate)(exec, graph, at, found); },
      [&](graphs::GraphChange& change) { change.OfAll(graph); });
}

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* found) noexcept {
  return Change(
      exec, [&] { return CUPOLA_REAL(cuGraphExecUpdate_v2)(exec, graph, found); },
      [&](graphs::GraphChange& change) { change.OfAll(graph); });
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1* params) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecKernelNodeSetParams)(exec, node, params); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphKernelNodeSetParams, PFN_cuGraphKernelNodeSetParams_v10000)(copied, params);
      });
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS* params) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphKernelNodeSetParams_v2, PFN_cuGraphKernelNodeSetParams_v12000)(copied, params);
      });
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                             CUcontext context) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecMemcpyNodeSetParams)(exec, node, params, context); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphMemcpyNodeSetParams, PFN_cuGraphMemcpyNodeSetParams_v10000)(copied, params);
      });
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecMemsetNodeSetParams)(exec, node, params, context); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphMemsetNodeSetParams, PFN_cuGraphMemsetNodeSetParams_v10000)(copied, params);
      });
}

CUresult hook_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_HOST_NODE_PARAMS* params) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecHostNodeSetParams)(exec, node, params); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphHostNodeSetParams, PFN_cuGraphHostNodeSetParams_v10000)(copied, params);
      });
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) noexcept {
  return ChangeNode(
      exec, node, [&] { return CUPOLA_REAL(cuGraphExecNodeSetParams)(exec, node, params); },
      [&](CUgraphNode copied) {
        return CUPOLA_CALL_REAL(cuGraphNodeSetParams, PFN_cuGraphNodeSetParams_v12020)(copied, params);
      });
}

CUresult hook_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) noexcept {
  return Change(
      exec, [&] { return CUPOLA_REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child); },
      [](graphs::GraphChange& change) { change.GiveUp("the program has changed a child graph of it"); });
}

CUresult hook_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned is_enabled) noexcept {
  return Change(
      exec, [&] { return CUPOLA_REAL(cuGraphNodeSetEnabled)(exec, node, is_enabled); },
      [&](graphs::GraphChange& change) { change.OfEnabled(node, is_enabled != 0); });
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
