// Graphs and stream capture. CUDA Runtime API, "Graph Management".
#include <cstring>

#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

cudaError_t KernelNode(const DriverCalls& calls, const cudaKernelNodeParams* params,
                       CUDA_KERNEL_NODE_PARAMS* out) {
  if (params == nullptr) return cudaErrorInvalidValue;
  *out = {};
  out->gridDimX = params->gridDim.x;
  out->gridDimY = params->gridDim.y;
  out->gridDimZ = params->gridDim.z;
  out->blockDimX = params->blockDim.x;
  out->blockDimY = params->blockDim.y;
  out->blockDimZ = params->blockDim.z;
  out->sharedMemBytes = params->sharedMemBytes;
  out->kernelParams = params->kernelParams;
  out->extra = params->extra;
  return FindKernel(calls, params->func, &out->kern);
}

cudaError_t AddKernelNode(const DriverCalls& calls, cudaGraphNode_t* node, cudaGraph_t graph,
                          const cudaGraphNode_t* dependencies, size_t count,
                          const cudaKernelNodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS driver_params;
  const cudaError_t error = KernelNode(calls, params, &driver_params);
  if (error != cudaSuccess) return error;
  return static_cast<cudaError_t>(
      calls.cuGraphAddKernelNode(node, graph, dependencies, count, &driver_params));
}

cudaError_t SetKernelNode(const DriverCalls& calls, cudaGraphExec_t graph, cudaGraphNode_t node,
                          const cudaKernelNodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS driver_params;
  const cudaError_t error = KernelNode(calls, params, &driver_params);
  if (error != cudaSuccess) return error;
  return static_cast<cudaError_t>(
      calls.cuGraphExecKernelNodeSetParams(graph, node, &driver_params));
}

CUcontext CurrentContext(const DriverCalls& calls) {
  CUcontext context = nullptr;
  return calls.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

CUresult AddMemsetNode(const DriverCalls& calls, cudaGraphNode_t* node, cudaGraph_t graph,
                       const cudaGraphNode_t* dependencies, size_t count,
                       const cudaMemsetParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMSET_NODE_PARAMS driver_params = {};
  driver_params.dst = DevicePointer(params->dst);
  driver_params.pitch = params->pitch;
  driver_params.value = params->value;
  driver_params.elementSize = params->elementSize;
  driver_params.width = params->width;
  driver_params.height = params->height;
  return calls.cuGraphAddMemsetNode(node, graph, dependencies, count, &driver_params,
                                    CurrentContext(calls));
}

CUmemorytype SideOf(cudaMemcpyKind kind, bool is_source) {
  switch (kind) {
    case cudaMemcpyHostToHost: return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice: return is_source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDeviceToHost: return is_source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToDevice: return CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDefault: break;
  }
  return CU_MEMORYTYPE_UNIFIED;
}

CUresult AddMemcpyNode1D(const DriverCalls& calls, cudaGraphNode_t* node, cudaGraph_t graph,
                         const cudaGraphNode_t* dependencies, size_t count, void* to,
                         const void* from, size_t bytes, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = SideOf(kind, true);
  copy.srcHost = from;
  copy.srcDevice = DevicePointer(from);
  copy.dstMemoryType = SideOf(kind, false);
  copy.dstHost = to;
  copy.dstDevice = DevicePointer(to);
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return calls.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, CurrentContext(calls));
}

CUresult AddHostNode(const DriverCalls& calls, cudaGraphNode_t* node, cudaGraph_t graph,
                     const cudaGraphNode_t* dependencies, size_t count,
                     const cudaHostNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS driver_params = {};
  driver_params.fn = params->fn;
  driver_params.userData = params->userData;
  return calls.cuGraphAddHostNode(node, graph, dependencies, count, &driver_params);
}

CUresult NodeType(const DriverCalls& calls, cudaGraphNode_t node, cudaGraphNodeType* out) {
  CUgraphNodeType type = {};
  const CUresult result = calls.cuGraphNodeGetType(node, &type);
  if (result == CUDA_SUCCESS) *out = static_cast<cudaGraphNodeType>(type);  // the numbers are equal
  return result;
}

CUresult Update(const DriverCalls& calls, cudaGraphExec_t graph, cudaGraph_t from,
                cudaGraphExecUpdateResultInfo* info) {
  static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
  return calls.cuGraphExecUpdate(graph, from, reinterpret_cast<CUgraphExecUpdateResultInfo*>(info));
}

CUresult IsCapturing(const DriverCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* out) {
  CUstreamCaptureStatus status = {};
  const CUresult result = calls.cuStreamIsCapturing(stream, &status);
  if (result == CUDA_SUCCESS) *out = static_cast<cudaStreamCaptureStatus>(status);
  return result;
}

CUresult CaptureInfo(const DriverCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status,
                     unsigned long long* id, cudaGraph_t* graph,
                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                     size_t* count) {
  static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureStatus found = {};
  cuuint64_t found_id = 0;
  const CUresult result = calls.cuStreamGetCaptureInfo(
      stream, &found, &found_id, graph, dependencies,
      reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (result != CUDA_SUCCESS) return result;
  *status = static_cast<cudaStreamCaptureStatus>(found);
  if (id != nullptr) *id = found_id;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

CUPOLA_CUDART_STREAM_CALL(cudaStreamBeginCapture, _ptsz,
                          (cudaStream_t stream, cudaStreamCaptureMode mode),
                          calls.cuStreamBeginCapture(stream,
                                                     static_cast<CUstreamCaptureMode>(mode)))
CUPOLA_CUDART_STREAM_CALL(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph),
                          calls.cuStreamEndCapture(stream, graph))
CUPOLA_CUDART_STREAM_CALL(cudaStreamIsCapturing, _ptsz,
                          (cudaStream_t stream, cudaStreamCaptureStatus* status),
                          IsCapturing(calls, stream, status))
CUPOLA_CUDART_CALL(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode* mode),
                   calls.cuThreadExchangeStreamCaptureMode(
                       reinterpret_cast<CUstreamCaptureMode*>(mode)))

CUPOLA_CUDART_CALL(cudaGraphCreate, (cudaGraph_t* graph, unsigned flags),
                   calls.cuGraphCreate(graph, flags))
CUPOLA_CUDART_CALL(cudaGraphDestroy, (cudaGraph_t graph), calls.cuGraphDestroy(graph))
CUPOLA_CUDART_CALL(cudaGraphClone, (cudaGraph_t* copy, cudaGraph_t graph),
                   calls.cuGraphClone(copy, graph))
CUPOLA_CUDART_CALL(cudaGraphAddKernelNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, const cudaKernelNodeParams* params),
                   AddKernelNode(calls, node, graph, dependencies, count, params))
CUPOLA_CUDART_CALL(cudaGraphAddMemcpyNode1D,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                   AddMemcpyNode1D(calls, node, graph, dependencies, count, to, from, bytes, kind))
CUPOLA_CUDART_CALL(cudaGraphAddMemsetNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, const cudaMemsetParams* params),
                   AddMemsetNode(calls, node, graph, dependencies, count, params))
CUPOLA_CUDART_CALL(cudaGraphAddHostNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, const cudaHostNodeParams* params),
                   AddHostNode(calls, node, graph, dependencies, count, params))
CUPOLA_CUDART_CALL(cudaGraphAddEmptyNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count),
                   calls.cuGraphAddEmptyNode(node, graph, dependencies, count))
CUPOLA_CUDART_CALL(cudaGraphAddChildGraphNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, cudaGraph_t child),
                   calls.cuGraphAddChildGraphNode(node, graph, dependencies, count, child))
CUPOLA_CUDART_CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
                   calls.cuGraphGetNodes(graph, nodes, count))
CUPOLA_CUDART_CALL(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
                   NodeType(calls, node, type))
CUPOLA_CUDART_CALL(cudaGraphInstantiate,
                   (cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags),
                   calls.cuGraphInstantiateWithFlags(out, graph, flags))
CUPOLA_CUDART_CALL(cudaGraphInstantiateWithFlags,
                   (cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags),
                   calls.cuGraphInstantiateWithFlags(out, graph, flags))
CUPOLA_CUDART_STREAM_CALL(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graph, cudaStream_t stream),
                          calls.cuGraphLaunch(graph, stream))
CUPOLA_CUDART_STREAM_CALL(cudaGraphUpload, _ptsz, (cudaGraphExec_t graph, cudaStream_t stream),
                          calls.cuGraphUpload(graph, stream))
CUPOLA_CUDART_CALL(cudaGraphExecUpdate,
                   (cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo* info),
                   Update(calls, graph, from, info))
CUPOLA_CUDART_CALL(cudaGraphExecKernelNodeSetParams,
                   (cudaGraphExec_t graph, cudaGraphNode_t node,
                    const cudaKernelNodeParams* params),
                   SetKernelNode(calls, graph, node, params))
CUPOLA_CUDART_CALL(cudaGraphExecDestroy, (cudaGraphExec_t graph), calls.cuGraphExecDestroy(graph))
CUPOLA_CUDART_STREAM_CALL(cudaStreamGetCaptureInfo, _ptsz,
                          (cudaStream_t stream, cudaStreamCaptureStatus* status,
                           unsigned long long* id, cudaGraph_t* graph,
                           const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                           size_t* count),
                          CaptureInfo(calls, stream, status, id, graph, dependencies, edges, count))
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
CUPOLA_CUDART_STREAM_CALL(cudaGraphInstantiateWithParams, _ptsz,
                          (cudaGraphExec_t* out, cudaGraph_t graph,
                           cudaGraphInstantiateParams* params),
                          calls.cuGraphInstantiateWithParams(
                              out, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params)))
CUPOLA_CUDART_CALL(cudaGraphGetRootNodes,
                   (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
                   calls.cuGraphGetRootNodes(graph, nodes, count))
CUPOLA_CUDART_CALL(cudaGraphGetEdges,
                   (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                    cudaGraphEdgeData* edges, size_t* count),
                   calls.cuGraphGetEdges(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(edges),
                                         count))
CUPOLA_CUDART_CALL(cudaGraphDestroyNode, (cudaGraphNode_t node), calls.cuGraphDestroyNode(node))
