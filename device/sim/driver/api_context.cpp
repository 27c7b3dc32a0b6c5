// The calls cuCtx*.
#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

CUresult cupola::sim::FindContext(const void* handle, Driver** driver,
                                  std::shared_ptr<Context>* context) {
  SIM_TRY(Enter(driver));
  *context = (*driver)->contexts.Find(handle);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

namespace {

CUresult Create(CUcontext* context, unsigned int flags, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  Context* made = driver->CreateContext(flags, device);
  if (!driver->Push(made)) {
    (void)driver->DestroyContext(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *context = reinterpret_cast<CUcontext>(made);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return Create(context, flags, device);
}

SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int affinities,
                                   unsigned int flags, CUdevice device) {
  if (affinities != 0) {
    SayLacks("cuCtxCreate_v3 with an execution affinity");
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  return Create(context, flags, device);
}

SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params,
                                   unsigned int flags, CUdevice device) {
  if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr)) {
    SayLacks("cuCtxCreate_v4 with parameters");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Create(context, flags, device);
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  if (context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  return driver->DestroyContext(context.get());
}
SIM_EXPORT CUresult cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  return driver->Push(context.get()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  const CUcontext top = driver->Pop();
  if (top == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = top;
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext* handle) { return cuCtxPopCurrent_v2(handle); }

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (handle == nullptr) {
    driver->SetCurrent(nullptr);
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  driver->SetCurrent(context.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUcontext>(driver->Current());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (driver->Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = driver->Current()->device;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(device);
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetFlags(unsigned int* flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags.load();
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  context->flags.store(flags);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle == nullptr) {
    Driver* driver;
    Context* current;
    SIM_TRY(Enter(&driver, &current));
    *id = current->id;
    return CUDA_SUCCESS;
  }
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  *id = context->id;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSynchronize(void) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  SIM_TRY(driver->CheckMaySynchronize());
  return driver->Synchronize(*context);
}

SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (handle == nullptr) return cuCtxSynchronize();
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindContext(handle, &driver, &context));
  SIM_TRY(driver->CheckMaySynchronize());
  return driver->Synchronize(*context);
}

SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
SIM_EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig) { return CUDA_SUCCESS; }
SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;  // as on sm_90
  return CUDA_SUCCESS;
}
