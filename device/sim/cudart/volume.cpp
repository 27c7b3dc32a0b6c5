// The runtime calls that allocate, copy or fill boxes of three dimensions in linear memory, and
// those for copy nodes of graphs. CUDA Runtime API, "Memory Management", "Graph Management". CUDA
// arrays are not supported.
#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

// Whether the source (or the destination) of such a copy is host memory.
bool IsHost(cudaMemcpyKind kind, bool is_source) {
  return kind == cudaMemcpyHostToHost ||
         kind == (is_source ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
}

CUmemorytype SideOf(cudaMemcpyKind kind, bool is_source) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return IsHost(kind, is_source) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

// Translates the runtime's parameters to the driver's. Widths and x positions are in bytes, heights
// and y in rows, depths and z in slices: so CUDA has it for copies without arrays. Errors:
// cudaErrorNotSupported for arrays; those of cudaMemcpy3D for wrong parameters.
cudaError_t Translate(const cudaMemcpy3DParms* params, CUDA_MEMCPY3D* out) {
  if (params == nullptr) return cudaErrorInvalidValue;
  if (params->srcArray != nullptr || params->dstArray != nullptr) return cudaErrorNotSupported;
  if (params->kind < cudaMemcpyHostToHost || params->kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const cudaExtent& extent = params->extent;
  const bool has_rows = extent.height > 1 || extent.depth > 1;
  if (has_rows && (params->srcPtr.pitch < extent.width || params->dstPtr.pitch < extent.width)) {
    return cudaErrorInvalidPitchValue;
  }
  *out = {};
  out->srcMemoryType = SideOf(params->kind, true);
  out->srcHost = params->srcPtr.ptr;
  out->srcDevice = DevicePointer(params->srcPtr.ptr);
  out->srcPitch = params->srcPtr.pitch;
  out->srcHeight = params->srcPtr.ysize;
  out->srcXInBytes = params->srcPos.x;
  out->srcY = params->srcPos.y;
  out->srcZ = params->srcPos.z;
  out->dstMemoryType = SideOf(params->kind, false);
  out->dstHost = params->dstPtr.ptr;
  out->dstDevice = DevicePointer(params->dstPtr.ptr);
  out->dstPitch = params->dstPtr.pitch;
  out->dstHeight = params->dstPtr.ysize;
  out->dstXInBytes = params->dstPos.x;
  out->dstY = params->dstPos.y;
  out->dstZ = params->dstPos.z;
  out->WidthInBytes = extent.width;
  out->Height = extent.height;
  out->Depth = extent.depth;
  return cudaSuccess;
}

bool IsEmpty(const CUDA_MEMCPY3D& copy) {
  return copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0;
}

cudaError_t Copy3D(const DriverCalls& calls, const cudaMemcpy3DParms* params) {
  CUDA_MEMCPY3D copy;
  const cudaError_t error = Translate(params, &copy);
  if (error != cudaSuccess || IsEmpty(copy)) return error;
  return static_cast<cudaError_t>(calls.cuMemcpy3D(&copy));
}

cudaError_t Copy3DAsync(const DriverCalls& calls, const cudaMemcpy3DParms* params,
                        cudaStream_t stream) {
  CUDA_MEMCPY3D copy;
  const cudaError_t error = Translate(params, &copy);
  if (error != cudaSuccess || IsEmpty(copy)) return error;
  return static_cast<cudaError_t>(calls.cuMemcpy3DAsync(&copy, stream));
}

cudaError_t AddMemcpyNode(const DriverCalls& calls, cudaGraphNode_t* node, cudaGraph_t graph,
                          const cudaGraphNode_t* dependencies, size_t count,
                          const cudaMemcpy3DParms* params) {
  CUDA_MEMCPY3D copy;
  if (const cudaError_t error = Translate(params, &copy); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  calls.cuCtxGetCurrent(&context);
  return static_cast<cudaError_t>(
      calls.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, context));
}

// Allocates a box. A box without bytes is a null pointer, and no error.
CUresult Allocate3D(const DriverCalls& calls, cudaPitchedPtr* out, cudaExtent extent) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {nullptr, 0, extent.width, extent.height};
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  size_t rows = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return CUDA_ERROR_INVALID_VALUE;
  return calls.cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(&out->ptr), &out->pitch, extent.width,
                               rows, 4);
}

// Fills a box with a byte. Makes a fill for each slice, because between two slices there may be
// rows that are not part of the box.
CUresult Fill3D(const DriverCalls& calls, cudaPitchedPtr to, int value, cudaExtent extent,
                bool is_async, cudaStream_t stream) {
  if (extent.width == 0 || extent.height == 0) return CUDA_SUCCESS;
  for (size_t slice = 0; slice < extent.depth; ++slice) {
    const CUdeviceptr start = DevicePointer(to.ptr) + slice * to.pitch * to.ysize;
    const auto byte = static_cast<unsigned char>(value);
    const CUresult result =
        is_async
            ? calls.cuMemsetD2D8Async(start, to.pitch, byte, extent.width, extent.height, stream)
            : calls.cuMemsetD2D8(start, to.pitch, byte, extent.width, extent.height);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

CUPOLA_CUDART_CALL(cudaMalloc3D, (cudaPitchedPtr* out, cudaExtent extent),
                   Allocate3D(calls, out, extent))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* params),
                          Copy3D(calls, params))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpy3DAsync, _ptsz,
                          (const cudaMemcpy3DParms* params, cudaStream_t stream),
                          Copy3DAsync(calls, params, stream))
CUPOLA_CUDART_STREAM_CALL(cudaMemset3D, _ptds, (cudaPitchedPtr to, int value, cudaExtent extent),
                          Fill3D(calls, to, value, extent, false, nullptr))
CUPOLA_CUDART_STREAM_CALL(cudaMemset3DAsync, _ptsz,
                          (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
                          Fill3D(calls, to, value, extent, true, stream))
CUPOLA_CUDART_CALL(cudaGraphAddMemcpyNode,
                   (cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    size_t count, const cudaMemcpy3DParms* params),
                   AddMemcpyNode(calls, node, graph, dependencies, count, params))
