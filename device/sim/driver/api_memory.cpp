// Calls for allocation, registration and attributes of pointers: cuMemAlloc*, cuMemHost*,
// cuPointer*.
#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

constexpr size_t kPitchAlignment = 512;

CUresult EnterToAllocate(Driver** driver, Context** context) {
  SIM_TRY(Enter(driver, context));
  return (*driver)->CheckMaySynchronize();
}

CUresult AllocateHost(void** pointer, size_t bytes, unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address =
      driver->memory().AllocateHost(bytes, MemoryKind::kHost, flags, context);
  *pointer = reinterpret_cast<void*>(address);
  return address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *free = driver->device().FreeBytes();
  *total = driver->device().config().memory_bytes;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *address = driver->memory().AllocateDevice(bytes, MemoryKind::kDevice, context);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width,
                                       size_t height, unsigned int element_bytes) {
  if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  if (*pitch > SIZE_MAX / height) return CUDA_ERROR_OUT_OF_MEMORY;
  return cuMemAlloc_v2(address, *pitch * height);
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  if (address == 0) return CUDA_SUCCESS;
  const std::optional<Allocation> found = driver->memory().Find(address);
  if (!found || found->start != address || found->is_host()) return CUDA_ERROR_INVALID_VALUE;
  driver->WaitAndHoldLaunches(*context);  // cuMemFree waits for all work that may use the memory
  if (!driver->memory().FreeDevice(address)) return CUDA_ERROR_INVALID_VALUE;
  return context->sticky();
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  const std::optional<Allocation> found = driver->memory().Find(address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->start;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return AllocateHost(pointer, bytes, 0);
}

SIM_EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return AllocateHost(pointer, bytes, flags);
}

SIM_EXPORT CUresult cuMemFreeHost(void* pointer) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  if (pointer == nullptr) return CUDA_SUCCESS;
  driver->WaitAndHoldLaunches(*context);
  if (!driver->memory().FreeHost(reinterpret_cast<uint64_t>(pointer))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return context->sticky();
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer,
                                                 unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Allocation> found =
      driver->memory().Find(reinterpret_cast<uint64_t>(pointer));
  if (!found || !found->is_host()) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<uint64_t>(pointer);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  const std::optional<Allocation> found =
      driver->memory().Find(reinterpret_cast<uint64_t>(pointer));
  if (flags == nullptr || !found || !found->is_host()) return CUDA_ERROR_INVALID_VALUE;
  // With unified addressing all memory is mapped.
  *flags = found->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) {
    SayLacks("cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const bool is_new =
      driver->memory().Register(reinterpret_cast<uint64_t>(pointer), bytes, flags, context);
  return is_new ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
SIM_EXPORT CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

SIM_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  driver->WaitAndHoldLaunches(*context);
  if (!driver->memory().Unregister(reinterpret_cast<uint64_t>(pointer))) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  return context->sticky();
}

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(EnterToAllocate(&driver, &context));
  const bool is_flag = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (address == nullptr || bytes == 0 || !is_flag) return CUDA_ERROR_INVALID_VALUE;
  *address = driver->memory().AllocateHost(bytes, MemoryKind::kManaged, flags, context);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  return CUDA_SUCCESS;  // advice about placement has no effect: there is one place for memory
}
SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) {
  return CUDA_SUCCESS;
}

SIM_CALL_BOTH(cuMemPrefetchAsync_v2, _ptsz,
              (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
               CUstream handle),
              (address, bytes, location, flags, handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (flags != 0 || location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Allocation> found = driver->memory().Find(address);
  const bool is_managed = found && found->kind == MemoryKind::kManaged;
  if (!is_managed || !driver->memory().Holds(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return driver->Enqueue(*stream, EmptyWork{});
}

SIM_CALL_BOTH(cuMemPrefetchAsync, _ptsz,
              (CUdeviceptr address, size_t bytes, CUdevice, CUstream handle),
              (address, bytes, 0, handle)) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  return cuMemPrefetchAsync_v2_body(null_means, address, bytes, location, 0, handle);
}

namespace {

/// Does cuPointerGetAttribute for known addresses; CUDA_ERROR_INVALID_VALUE for an unknown one.
CUresult AttributeOf(Driver& driver, CUpointer_attribute attribute, uint64_t address, void* data) {
  const std::optional<Allocation> found = driver.memory().Find(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  const bool is_host = found->is_host();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(found->context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned int*>(data) = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !is_host &&
          found->kind != MemoryKind::kManaged) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      *static_cast<uint64_t*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = found->id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<int*>(data) = found->kind == MemoryKind::kManaged;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = found->start;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = found->bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<int*>(data) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<unsigned long long*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<int*>(data) = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = static_cast<CUmemoryPool>(found->pool);
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

SIM_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                          CUdeviceptr address) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AttributeOf(*driver, attribute, address, data);
}

SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes,
                                           void** data, CUdeviceptr address) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    // For a pointer unknown to CUDA this call returns no error, and gives zeros and no device.
    if (AttributeOf(*driver, attributes[i], address, data[i]) == CUDA_SUCCESS) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data[i]) = -2; break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<int*>(data[i]) = 0; break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<uint64_t*>(data[i]) = 0; break;
      default: break;
    }
  }
  return CUDA_SUCCESS;
}
