// Memory. CUDA Runtime API, "Memory Management", "Stream Ordered Memory Allocator", "Unified
// Addressing".
#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

CUresult Copy(const DriverCalls& calls, void* to, const void* from, size_t bytes,
              cudaMemcpyKind kind) {
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice: return calls.cuMemcpyHtoD(DevicePointer(to), from, bytes);
    case cudaMemcpyDeviceToHost: return calls.cuMemcpyDtoH(to, DevicePointer(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return calls.cuMemcpyDtoD(DevicePointer(to), DevicePointer(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return calls.cuMemcpy(DevicePointer(to), DevicePointer(from), bytes);
  }
  return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
}

CUresult CopyAsync(const DriverCalls& calls, void* to, const void* from, size_t bytes,
                   cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return calls.cuMemcpyHtoDAsync(DevicePointer(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return calls.cuMemcpyDtoHAsync(to, DevicePointer(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return calls.cuMemcpyDtoDAsync(DevicePointer(to), DevicePointer(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return calls.cuMemcpyAsync(DevicePointer(to), DevicePointer(from), bytes, stream);
  }
  return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
}

// Pitches and width are in bytes, height in rows.
CUDA_MEMCPY2D Copy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t height, cudaMemcpyKind kind) {
  const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  const bool unified = kind == cudaMemcpyDefault;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = unified ? CU_MEMORYTYPE_UNIFIED
                       : from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcHost = from;
  copy.srcDevice = DevicePointer(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = unified ? CU_MEMORYTYPE_UNIFIED
                       : to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstHost = to;
  copy.dstDevice = DevicePointer(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

// The address of the part [offset, +bytes) of a symbol; cudaErrorInvalidValue beyond its end.
cudaError_t SymbolPart(const DriverCalls& calls, const void* symbol, size_t bytes, size_t offset,
                       void** address) {
  CUdeviceptr start = 0;
  size_t size = 0;
  if (const cudaError_t error = FindSymbol(calls, symbol, &start, &size); error != cudaSuccess) {
    return error;
  }
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *address = reinterpret_cast<void*>(start + offset);
  return cudaSuccess;
}

cudaError_t CopyToSymbol(const DriverCalls& calls, const void* symbol, const void* from,
                         size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  const cudaError_t error = SymbolPart(calls, symbol, bytes, offset, &to);
  return error != cudaSuccess ? error
                              : static_cast<cudaError_t>(Copy(calls, to, from, bytes, kind));
}

cudaError_t CopyFromSymbol(const DriverCalls& calls, void* to, const void* symbol, size_t bytes,
                           size_t offset, cudaMemcpyKind kind) {
  void* from = nullptr;
  const cudaError_t error = SymbolPart(calls, symbol, bytes, offset, &from);
  return error != cudaSuccess ? error
                              : static_cast<cudaError_t>(Copy(calls, to, from, bytes, kind));
}

cudaError_t CopyToSymbolAsync(const DriverCalls& calls, const void* symbol, const void* from,
                              size_t bytes, size_t offset, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  void* to = nullptr;
  const cudaError_t error = SymbolPart(calls, symbol, bytes, offset, &to);
  if (error != cudaSuccess) return error;
  return static_cast<cudaError_t>(CopyAsync(calls, to, from, bytes, kind, stream));
}

cudaError_t CopyFromSymbolAsync(const DriverCalls& calls, void* to, const void* symbol,
                                size_t bytes, size_t offset, cudaMemcpyKind kind,
                                cudaStream_t stream) {
  void* from = nullptr;
  const cudaError_t error = SymbolPart(calls, symbol, bytes, offset, &from);
  if (error != cudaSuccess) return error;
  return static_cast<cudaError_t>(CopyAsync(calls, to, from, bytes, kind, stream));
}

CUresult Allocate(const DriverCalls& calls, void** pointer, size_t bytes) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  return calls.cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), bytes);
}

cudaError_t PointerAttributes(const DriverCalls& calls, cudaPointerAttributes* out,
                              const void* pointer) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = {};
  out->type = cudaMemoryTypeUnregistered;
  out->device = -2;
  out->hostPointer = const_cast<void*>(pointer);
  CUmemorytype type = {};
  const CUdeviceptr address = DevicePointer(pointer);
  if (calls.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          CUDA_SUCCESS ||
      type == 0) {
    return cudaSuccess;  // for ordinary host memory the call succeeds
  }
  unsigned is_managed = 0;
  calls.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  out->type = is_managed ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  out->device = CurrentDevice();
  out->devicePointer = const_cast<void*>(pointer);
  if (out->type == cudaMemoryTypeDevice) out->hostPointer = nullptr;
  return cudaSuccess;
}

}  // namespace
}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

CUPOLA_CUDART_CALL(cudaMalloc, (void** pointer, size_t bytes), Allocate(calls, pointer, bytes))
CUPOLA_CUDART_CALL(cudaFree, (void* pointer),
                   pointer == nullptr ? CUDA_SUCCESS : calls.cuMemFree(DevicePointer(pointer)))
CUPOLA_CUDART_CALL(cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t height),
                   calls.cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(pointer), pitch, width,
                                         height, 4))
CUPOLA_CUDART_CALL(cudaMallocManaged, (void** pointer, size_t bytes, unsigned flags),
                   calls.cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(pointer), bytes, flags))
CUPOLA_CUDART_STREAM_CALL(cudaMallocAsync, _ptsz,
                          (void** pointer, size_t bytes, cudaStream_t stream),
                          calls.cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(pointer), bytes,
                                                stream))
CUPOLA_CUDART_STREAM_CALL(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream),
                          calls.cuMemFreeAsync(DevicePointer(pointer), stream))
CUPOLA_CUDART_CALL(cudaHostAlloc, (void** pointer, size_t bytes, unsigned flags),
                   calls.cuMemHostAlloc(pointer, bytes, flags))
CUPOLA_CUDART_CALL(cudaMallocHost, (void** pointer, size_t bytes),
                   calls.cuMemHostAlloc(pointer, bytes, 0))
CUPOLA_CUDART_CALL(cudaFreeHost, (void* pointer),
                   pointer == nullptr ? CUDA_SUCCESS : calls.cuMemFreeHost(pointer))
CUPOLA_CUDART_CALL(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags),
                   calls.cuMemHostRegister(pointer, bytes, flags))
CUPOLA_CUDART_CALL(cudaHostUnregister, (void* pointer), calls.cuMemHostUnregister(pointer))
CUPOLA_CUDART_CALL(cudaHostGetDevicePointer, (void** device, void* host, unsigned flags),
                   calls.cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device), host,
                                                   flags))
CUPOLA_CUDART_CALL(cudaHostGetFlags, (unsigned* flags, void* host),
                   calls.cuMemHostGetFlags(flags, host))
CUPOLA_CUDART_CALL(cudaMemGetInfo, (size_t* available, size_t* total),
                   calls.cuMemGetInfo(available, total))
CUPOLA_CUDART_CALL(cudaPointerGetAttributes, (cudaPointerAttributes* out, const void* pointer),
                   PointerAttributes(calls, out, pointer))

CUPOLA_CUDART_STREAM_CALL(cudaMemcpy, _ptds,
                          (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                          Copy(calls, to, from, bytes, kind))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpyAsync, _ptsz,
                          (void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                           cudaStream_t stream),
                          CopyAsync(calls, to, from, bytes, kind, stream))

static bool FitsPitches(const CUDA_MEMCPY2D& copy) {
  return copy.Height <= 1 ||
         (copy.WidthInBytes <= copy.srcPitch && copy.WidthInBytes <= copy.dstPitch);
}
static CUresult Run2D(const DriverCalls& calls, const CUDA_MEMCPY2D& copy) {
  if (copy.WidthInBytes == 0 || copy.Height == 0) return CUDA_SUCCESS;
  if (!FitsPitches(copy)) return static_cast<CUresult>(cudaErrorInvalidPitchValue);
  return calls.cuMemcpy2DUnaligned(&copy);
}
static CUresult Run2DAsync(const DriverCalls& calls, const CUDA_MEMCPY2D& copy,
                           cudaStream_t stream) {
  if (copy.WidthInBytes == 0 || copy.Height == 0) return CUDA_SUCCESS;
  if (!FitsPitches(copy)) return static_cast<CUresult>(cudaErrorInvalidPitchValue);
  return calls.cuMemcpy2DAsync(&copy, stream);
}
CUPOLA_CUDART_STREAM_CALL(cudaMemcpy2D, _ptds,
                          (void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t width, size_t height, cudaMemcpyKind kind),
                          Run2D(calls, Copy2D(to, to_pitch, from, from_pitch, width, height, kind)))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpy2DAsync, _ptsz,
                          (void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                          Run2DAsync(calls,
                                     Copy2D(to, to_pitch, from, from_pitch, width, height, kind),
                                     stream))
CUPOLA_CUDART_STREAM_CALL(cudaMemset, _ptds, (void* to, int value, size_t bytes),
                          calls.cuMemsetD8(DevicePointer(to), static_cast<unsigned char>(value),
                                           bytes))
CUPOLA_CUDART_STREAM_CALL(cudaMemsetAsync, _ptsz,
                          (void* to, int value, size_t bytes, cudaStream_t stream),
                          calls.cuMemsetD8Async(DevicePointer(to),
                                                static_cast<unsigned char>(value), bytes, stream))
CUPOLA_CUDART_STREAM_CALL(cudaMemset2D, _ptds,
                          (void* to, size_t pitch, int value, size_t width, size_t height),
                          calls.cuMemsetD2D8(DevicePointer(to), pitch,
                                             static_cast<unsigned char>(value), width, height))
CUPOLA_CUDART_STREAM_CALL(cudaMemset2DAsync, _ptsz,
                          (void* to, size_t pitch, int value, size_t width, size_t height,
                           cudaStream_t stream),
                          calls.cuMemsetD2D8Async(DevicePointer(to), pitch,
                                                  static_cast<unsigned char>(value), width, height,
                                                  stream))

CUPOLA_CUDART_STREAM_CALL(cudaMemcpyToSymbol, _ptds,
                          (const void* symbol, const void* from, size_t bytes, size_t offset,
                           cudaMemcpyKind kind),
                          CopyToSymbol(calls, symbol, from, bytes, offset, kind))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpyFromSymbol, _ptds,
                          (void* to, const void* symbol, size_t bytes, size_t offset,
                           cudaMemcpyKind kind),
                          CopyFromSymbol(calls, to, symbol, bytes, offset, kind))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpyToSymbolAsync, _ptsz,
                          (const void* symbol, const void* from, size_t bytes, size_t offset,
                           cudaMemcpyKind kind, cudaStream_t stream),
                          CopyToSymbolAsync(calls, symbol, from, bytes, offset, kind, stream))
CUPOLA_CUDART_STREAM_CALL(cudaMemcpyFromSymbolAsync, _ptsz,
                          (void* to, const void* symbol, size_t bytes, size_t offset,
                           cudaMemcpyKind kind, cudaStream_t stream),
                          CopyFromSymbolAsync(calls, to, symbol, bytes, offset, kind, stream))

static cudaError_t SymbolAddress(const DriverCalls& calls, void** out, const void* symbol) {
  return SymbolPart(calls, symbol, 0, 0, out);
}
static cudaError_t SymbolSize(const DriverCalls& calls, size_t* out, const void* symbol) {
  CUdeviceptr address = 0;
  return FindSymbol(calls, symbol, &address, out);
}
CUPOLA_CUDART_CALL(cudaGetSymbolAddress, (void** out, const void* symbol),
                   SymbolAddress(calls, out, symbol))
CUPOLA_CUDART_CALL(cudaGetSymbolSize, (size_t* out, const void* symbol),
                   SymbolSize(calls, out, symbol))
