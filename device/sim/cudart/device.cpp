// Devices, versions, kernel attributes and occupancy. CUDA Runtime API, "Device Management",
// "Version Management", "Execution Control", "Occupancy".
#include <cstring>

#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

cudaError_t FillProperties(const DriverCalls& calls, cudaDeviceProp* out, int device) {
  CUdevice handle = 0;
  if (out == nullptr) return cudaErrorInvalidValue;
  if (calls.cuDeviceGet(&handle, device) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
  std::memset(out, 0, sizeof(*out));
  calls.cuDeviceGetName(out->name, sizeof(out->name), handle);
  calls.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&out->uuid), handle);
  calls.cuDeviceTotalMem(&out->totalGlobalMem, handle);
  const auto get = [&](CUdevice_attribute attribute) {
    int value = 0;
    calls.cuDeviceGetAttribute(&value, attribute, handle);
    return value;
  };
  out->major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out->minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out->multiProcessorCount = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out->warpSize = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->maxThreadsPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  out->maxBlocksPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  out->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  out->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  out->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  out->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  out->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  out->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  out->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  out->sharedMemPerBlockOptin = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  out->sharedMemPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  out->reservedSharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  out->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out->regsPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  out->totalConstMem = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  out->l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  out->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  out->textureAlignment = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  out->memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  out->asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  out->concurrentKernels = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  out->canMapHostMemory = get(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  out->unifiedAddressing = get(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  out->managedMemory = get(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  out->concurrentManagedAccess = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  out->cooperativeLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  out->streamPrioritiesSupported = get(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  out->memoryPoolsSupported = get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  out->pciBusID = get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  out->pciDeviceID = get(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  out->pciDomainID = get(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  return cudaSuccess;
}

cudaError_t FunctionAttributes(const DriverCalls& calls, cudaFuncAttributes* out,
                               const void* function) {
  CUfunction handle = nullptr;
  if (out == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = FindFunction(calls, function, &handle); error != cudaSuccess) {
    return error;
  }
  std::memset(out, 0, sizeof(*out));
  const auto get = [&](CUfunction_attribute attribute) {
    int value = 0;
    calls.cuFuncGetAttribute(&value, attribute, handle);
    return value;
  };
  out->sharedSizeBytes = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out->constSizeBytes = get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  out->localSizeBytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}

// The attributes that the runtime lets a program set have the same numbers in the driver API.
cudaError_t SetFunctionAttribute(const DriverCalls& calls, const void* function,
                                 cudaFuncAttribute attribute, int value) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  CUdevice device = 0;
  calls.cuCtxGetDevice(&device);
  return static_cast<cudaError_t>(calls.cuKernelSetAttribute(
      static_cast<CUfunction_attribute>(attribute), value, kernel, device));
}

cudaError_t ActiveBlocks(const DriverCalls& calls, int* blocks, const void* function, int threads,
                         size_t shared_bytes, unsigned flags) {
  CUfunction handle = nullptr;
  if (const cudaError_t error = FindFunction(calls, function, &handle); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(calls.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, handle, threads, shared_bytes, flags));
}

cudaError_t AvailableShared(const DriverCalls& calls, size_t* bytes, const void* function,
                            int blocks, int threads) {
  CUfunction handle = nullptr;
  if (const cudaError_t error = FindFunction(calls, function, &handle); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(
      calls.cuOccupancyAvailableDynamicSMemPerBlock(bytes, handle, blocks, threads));
}

cudaError_t FunctionName(const DriverCalls& calls, const char** name, const void* function) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(calls.cuKernelGetName(name, kernel));
}

// Asks cuGetProcAddress, which has the same statuses. Here a symbol that is not found is no error.
cudaError_t DriverEntry(const DriverCalls& calls, const char* symbol, void** out, unsigned version,
                        unsigned long long flags, cudaDriverEntryPointQueryResult* status,
                        bool per_thread) {
  if (symbol == nullptr || out == nullptr) return cudaErrorInvalidValue;
  if (flags == cudaEnableDefault && per_thread) flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult found = {};
  *out = nullptr;
  const CUresult result =
      calls.cuGetProcAddress(symbol, out, static_cast<int>(version), flags, &found);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND) {
    return static_cast<cudaError_t>(result);
  }
  if (result == CUDA_ERROR_NOT_FOUND && found == CU_GET_PROC_ADDRESS_SUCCESS) {
    found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return cudaSuccess;
}

CUresult Reset(const DriverCalls& calls) {
  CUdevice device = 0;
  if (const CUresult result = calls.cuDeviceGet(&device, CurrentDevice()); result != CUDA_SUCCESS) {
    return result;
  }
  const CUresult result = calls.cuDevicePrimaryCtxReset(device);
  ForgetPrimaryContext();
  return result;
}

// The flags of the device or, where a context of the driver API is current, of that context. The
// runtime always allows mapped host memory.
CUresult DeviceFlags(const DriverCalls& calls, int* out) {
  unsigned flags = 0;
  int is_active = 0;
  CUcontext context = nullptr;
  CUresult result = calls.cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS) return result;
  if (context != nullptr && !IsPrimaryContext(context)) {
    result = calls.cuCtxGetFlags(&flags);
  } else {
    CUdevice device = 0;
    result = calls.cuDeviceGet(&device, CurrentDevice());
    if (result != CUDA_SUCCESS) return result;
    result = calls.cuDevicePrimaryCtxGetState(device, &flags, &is_active);
    flags |= cudaDeviceMapHost;
  }
  if (result == CUDA_SUCCESS) *out = static_cast<int>(flags);
  return result;
}

// Needs no context: flags may be set before there is one, and then apply to it.
cudaError_t SetFlags(unsigned flags) {
  const DriverCalls* calls = nullptr;
  CUdevice device = 0;
  if (const cudaError_t error = EnterDriver(&calls); error != cudaSuccess) return error;
  CUresult result = calls->cuDeviceGet(&device, CurrentDevice());
  if (result == CUDA_SUCCESS) result = calls->cuDevicePrimaryCtxSetFlags(device, flags);
  return static_cast<cudaError_t>(result);
}

cudaError_t WithDriver(CUresult (*call)(const DriverCalls&, int*), int* out) {
  const DriverCalls* calls = nullptr;
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t error = EnterDriver(&calls);
  return error != cudaSuccess ? error : static_cast<cudaError_t>(call(*calls, out));
}

}  // namespace
}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return Leave(WithDriver(
      [](const DriverCalls& calls, int* out) { return calls.cuDeviceGetCount(out); }, count));
}

cudaError_t cudaGetDevice(int* device) {
  return Leave(WithDriver(
      [](const DriverCalls&, int* out) {
        *out = CurrentDevice();
        return CUDA_SUCCESS;
      },
      device));
}

cudaError_t cudaSetDevice(int device) { return Leave(SelectDevice(device)); }

cudaError_t cudaSetDeviceFlags(unsigned flags) { return Leave(SetFlags(flags)); }

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return Leave(WithDriver(DeviceFlags, reinterpret_cast<int*>(flags)));
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return Leave(SelectDevice(device)); }

cudaError_t cudaDriverGetVersion(int* version) {
  const cudaError_t error = WithDriver(
      [](const DriverCalls& calls, int* out) { return calls.cuDriverGetVersion(out); }, version);
  // CUDA Runtime API: "If no driver is installed, then 0 is returned as the version."
  if (error == cudaErrorInsufficientDriver && version != nullptr) {
    *version = 0;
    return cudaSuccess;
  }
  return Leave(error);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Leave(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"

CUPOLA_CUDART_CALL(cudaGetDeviceProperties, (cudaDeviceProp* out, int device),
                   FillProperties(calls, out, device))
CUPOLA_CUDART_CALL(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
                   calls.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute),
                                              device))
CUPOLA_CUDART_CALL(cudaDeviceCanAccessPeer, (int* can, int device, int peer),
                   calls.cuDeviceCanAccessPeer(can, device, peer))
CUPOLA_CUDART_CALL(cudaDeviceSynchronize, (), calls.cuCtxSynchronize())
CUPOLA_CUDART_CALL(cudaDeviceReset, (), Reset(calls))
CUPOLA_CUDART_CALL(cudaDeviceGetLimit, (size_t* value, cudaLimit limit),
                   calls.cuCtxGetLimit(value, static_cast<CUlimit>(limit)))
CUPOLA_CUDART_CALL(cudaDeviceSetLimit, (cudaLimit limit, size_t value),
                   calls.cuCtxSetLimit(static_cast<CUlimit>(limit), value))
CUPOLA_CUDART_CALL(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
                   calls.cuCtxGetStreamPriorityRange(least, greatest))
CUPOLA_CUDART_CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t* pool, int device),
                   calls.cuDeviceGetDefaultMemPool(pool, device))
// These calls have no effect: the simulated device has no cache to configure and no profiler.
CUPOLA_CUDART_CALL(cudaDeviceSetCacheConfig, (cudaFuncCache), CUDA_SUCCESS)
CUPOLA_CUDART_CALL(cudaFuncSetCacheConfig, (const void*, cudaFuncCache), CUDA_SUCCESS)
CUPOLA_CUDART_CALL(cudaProfilerStart, (), CUDA_SUCCESS)
CUPOLA_CUDART_CALL(cudaProfilerStop, (), CUDA_SUCCESS)

CUPOLA_CUDART_CALL(cudaFuncGetAttributes, (cudaFuncAttributes* out, const void* function),
                   FunctionAttributes(calls, out, function))
CUPOLA_CUDART_CALL(cudaFuncSetAttribute,
                   (const void* function, cudaFuncAttribute attribute, int value),
                   SetFunctionAttribute(calls, function, attribute, value))
CUPOLA_CUDART_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                   (int* blocks, const void* function, int threads, size_t shared_bytes),
                   ActiveBlocks(calls, blocks, function, threads, shared_bytes, 0))
CUPOLA_CUDART_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                   (int* blocks, const void* function, int threads, size_t shared_bytes,
                    unsigned flags),
                   ActiveBlocks(calls, blocks, function, threads, shared_bytes, flags))
CUPOLA_CUDART_CALL(cudaOccupancyAvailableDynamicSMemPerBlock,
                   (size_t* bytes, const void* function, int blocks, int threads),
                   AvailableShared(calls, bytes, function, blocks, threads))
CUPOLA_CUDART_CALL(cudaFuncGetName, (const char** name, const void* function),
                   FunctionName(calls, name, function))
CUPOLA_CUDART_CALL(cudaDeviceGetPCIBusId, (char* id, int bytes, int device),
                   calls.cuDeviceGetPCIBusId(id, bytes, device))
CUPOLA_CUDART_CALL(cudaDeviceGetByPCIBusId, (int* device, const char* id),
                   calls.cuDeviceGetByPCIBusId(device, id))

#define CUPOLA_CUDART_ENTRY_POINT(suffix, per_thread)                                             \
  CUPOLA_CUDART_CALL(cudaGetDriverEntryPoint##suffix,                                             \
                     (const char* symbol, void** out, unsigned long long flags,                   \
                      cudaDriverEntryPointQueryResult* status),                                   \
                     DriverEntry(calls, symbol, out, CUDART_VERSION, flags, status, per_thread))  \
  CUPOLA_CUDART_CALL(cudaGetDriverEntryPointByVersion##suffix,                                    \
                     (const char* symbol, void** out, unsigned version, unsigned long long flags, \
                      cudaDriverEntryPointQueryResult* status),                                   \
                     DriverEntry(calls, symbol, out, version, flags, status, per_thread))
CUPOLA_CUDART_ENTRY_POINT(, false)
CUPOLA_CUDART_ENTRY_POINT(_ptsz, true)
