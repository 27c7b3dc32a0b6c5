// Edges of graphs, and nodes that record or wait for events. CUDA Runtime API, "Graph Management".
#include "device/sim/cudart/runtime.h"

using namespace cupola::cudart;  // NOLINT: the exported calls are below

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

CUPOLA_CUDART_CALL(cudaGraphAddDependencies,
                   (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                    const cudaGraphEdgeData* edges, size_t count),
                   calls.cuGraphAddDependencies(
                       graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count))
CUPOLA_CUDART_CALL(cudaGraphRemoveDependencies,
                   (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                    const cudaGraphEdgeData* edges, size_t count),
                   calls.cuGraphRemoveDependencies(
                       graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count))
CUPOLA_CUDART_CALL(cudaGraphNodeGetDependencies,
                   (cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                    size_t* count),
                   calls.cuGraphNodeGetDependencies(
                       node, dependencies, reinterpret_cast<CUgraphEdgeData*>(edges), count))
CUPOLA_CUDART_CALL(cudaGraphNodeGetDependentNodes,
                   (cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                    size_t* count),
                   calls.cuGraphNodeGetDependentNodes(
                       node, dependents, reinterpret_cast<CUgraphEdgeData*>(edges), count))

CUPOLA_CUDART_CALL(cudaGraphAddEventRecordNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, cudaEvent_t event),
                   calls.cuGraphAddEventRecordNode(node, graph, dependencies, count, event))
CUPOLA_CUDART_CALL(cudaGraphAddEventWaitNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, cudaEvent_t event),
                   calls.cuGraphAddEventWaitNode(node, graph, dependencies, count, event))
CUPOLA_CUDART_CALL(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
                   calls.cuGraphEventRecordNodeGetEvent(node, event))
CUPOLA_CUDART_CALL(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
                   calls.cuGraphEventRecordNodeSetEvent(node, event))
CUPOLA_CUDART_CALL(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
                   calls.cuGraphEventWaitNodeGetEvent(node, event))
CUPOLA_CUDART_CALL(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
                   calls.cuGraphEventWaitNodeSetEvent(node, event))
CUPOLA_CUDART_CALL(cudaGraphExecEventRecordNodeSetEvent,
                   (cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event),
                   calls.cuGraphExecEventRecordNodeSetEvent(graph, node, event))
CUPOLA_CUDART_CALL(cudaGraphExecEventWaitNodeSetEvent,
                   (cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event),
                   calls.cuGraphExecEventWaitNodeSetEvent(graph, node, event))
