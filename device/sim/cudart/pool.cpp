// Memory pools, and advice about managed memory. CUDA Runtime API, "Stream Ordered Memory
// Allocator", "Memory Management".
#include "device/sim/cudart/runtime.h"

// These structures have the same layout in both APIs.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));

namespace {

CUmemLocation DriverLocation(cudaMemLocation location) {
  CUmemLocation out = {};
  out.type = static_cast<CUmemLocationType>(location.type);
  out.id = location.id;
  return out;
}

// The flags have the same numbers in the driver API.
CUresult PoolAccess(const cupola::cudart::DriverCalls& calls, cudaMemAccessFlags* out,
                    cudaMemPool_t pool, const cudaMemLocation* location) {
  if (out == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUmemAccess_flags flags = {};
  CUmemLocation where = DriverLocation(*location);
  const CUresult result = calls.cuMemPoolGetAccess(&flags, pool, &where);
  if (result == CUDA_SUCCESS) *out = static_cast<cudaMemAccessFlags>(flags);
  return result;
}

}  // namespace

CUPOLA_CUDART_CALL(cudaMemPoolCreate, (cudaMemPool_t* pool, const cudaMemPoolProps* properties),
                   calls.cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)))
CUPOLA_CUDART_CALL(cudaMemPoolDestroy, (cudaMemPool_t pool), calls.cuMemPoolDestroy(pool))
CUPOLA_CUDART_CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes),
                   calls.cuMemPoolTrimTo(pool, bytes))
CUPOLA_CUDART_CALL(cudaMemPoolSetAttribute,
                   (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
                   calls.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute),
                                               value))
CUPOLA_CUDART_CALL(cudaMemPoolGetAttribute,
                   (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
                   calls.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute),
                                               value))
CUPOLA_CUDART_CALL(cudaMemPoolSetAccess,
                   (cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count),
                   calls.cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access),
                                            count))
CUPOLA_CUDART_CALL(cudaMemPoolGetAccess,
                   (cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location),
                   PoolAccess(calls, flags, pool, location))
CUPOLA_CUDART_CALL(cudaDeviceGetMemPool, (cudaMemPool_t* pool, int device),
                   calls.cuDeviceGetMemPool(pool, device))
CUPOLA_CUDART_CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
                   calls.cuDeviceSetMemPool(device, pool))
CUPOLA_CUDART_STREAM_CALL(cudaMallocFromPoolAsync, _ptsz,
                          (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                          calls.cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(pointer),
                                                        bytes, pool, stream))
CUPOLA_CUDART_STREAM_CALL(cudaMemPrefetchAsync, _ptsz,
                          (const void* pointer, size_t bytes, cudaMemLocation location,
                           unsigned flags, cudaStream_t stream),
                          calls.cuMemPrefetchAsync(cupola::cudart::DevicePointer(pointer), bytes,
                                                   DriverLocation(location), flags, stream))
CUPOLA_CUDART_CALL(cudaMemAdvise,
                   (const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                    cudaMemLocation location),
                   calls.cuMemAdvise(cupola::cudart::DevicePointer(pointer), bytes,
                                     static_cast<CUmem_advise>(advice), DriverLocation(location)))
