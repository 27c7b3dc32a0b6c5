// Stream-ordered allocation: cuMemAllocAsync and memory pools. Memory is allocated at once and
// freed in stream order. A pool keeps no freed memory; it only has attributes.
#include <cstring>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

struct Pool {
  std::atomic<uint64_t> release_threshold{0};
  std::atomic<int> reuse[4] = {1, 1, 1, 1};  ///< CU_MEMPOOL_ATTR_REUSE_* as set; without effect
};

HandleTable<Pool>& Pools() {
  // Leaked on purpose: used until the process ends.
  static auto* const pools = new HandleTable<Pool>;
  return *pools;
}

Pool* DefaultPool() {
  static Pool* const pool = Pools().Add(std::make_shared<Pool>());
  return pool;
}

std::atomic<Pool*> current_pool{nullptr};

Pool* CurrentPool() {
  Pool* pool = current_pool.load();
  return pool != nullptr ? pool : DefaultPool();
}

CUresult Allocate(CUdeviceptr* address, size_t bytes, Pool* pool, CUstream handle,
                  DefaultStream null_means) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver->CaptureOf(*stream, nullptr, nullptr) != CU_STREAM_CAPTURE_STATUS_NONE) {
    SayLacks("cuMemAllocAsync in a stream that is being captured");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *address = driver->memory().AllocateDevice(bytes, MemoryKind::kPool, context, pool);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace

SIM_CALL_BOTH(cuMemAllocAsync, _ptsz, (CUdeviceptr * address, size_t bytes, CUstream handle),
              (address, bytes, handle)) {
  return Allocate(address, bytes, CurrentPool(), handle, null_means);
}

SIM_CALL_BOTH(cuMemAllocFromPoolAsync, _ptsz,
              (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream handle),
              (address, bytes, pool, handle)) {
  std::shared_ptr<Pool> found = Pools().Find(pool);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  return Allocate(address, bytes, found.get(), handle, null_means);
}

SIM_CALL_BOTH(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream handle), (address, handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (address == 0) return CUDA_SUCCESS;
  if (!driver->memory().Forget(address)) return CUDA_ERROR_INVALID_VALUE;
  return driver->Enqueue(*stream, FreeWork{address});
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  *pool = reinterpret_cast<CUmemoryPool>(DefaultPool());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  *pool = reinterpret_cast<CUmemoryPool>(CurrentPool());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckDevice(device));
  std::shared_ptr<Pool> found = Pools().Find(pool);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  current_pool.store(found.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    SayLacks("cuMemPoolCreate of a shareable or host pool");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *pool = reinterpret_cast<CUmemoryPool>(Pools().Add(std::make_shared<Pool>()));
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (static_cast<void*>(pool) == DefaultPool()) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Pool> taken = Pools().Take(pool);
  if (!taken) return CUDA_ERROR_INVALID_VALUE;
  Pool* expected = taken.get();
  current_pool.compare_exchange_strong(expected, nullptr);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  return Pools().Find(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// There is one device, and it may always read and write the memory of its own pools.
SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map,
                                       size_t count) {
  if (!Pools().Find(pool) || (map == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(CheckDevice(map[i].location.id));
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool,
                                       CUmemLocation* location) {
  if (flags == nullptr || location == nullptr || !Pools().Find(pool)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(location->id));
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void* value) {
  std::shared_ptr<Pool> pool = Pools().Find(handle);
  if (!pool || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute] = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    // Resets a high-water mark, not kept here.
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void* value) {
  std::shared_ptr<Pool> pool = Pools().Find(handle);
  if (!pool || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = pool->release_threshold.load();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool->reuse[attribute].load();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      SayLacks("cuMemPoolGetAttribute of the memory in use");
      return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
