// Green contexts: cuGreenCtx*, cuDevResource* and the calls that convert between them. Here a green
// context is an ordinary context whose kernels may run on all SMs, because the simulated device
// cannot bind a context to some SMs.
#include <algorithm>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

// A partition has this number of SMs or a multiple of it.
constexpr unsigned int kSmsOfPartition = 1;

// The handle that describes a set of resources: the number of its SMs, which is never 0.
CUdevResourceDesc DescriptionOf(unsigned int sms) {
  return reinterpret_cast<CUdevResourceDesc>(static_cast<uintptr_t>(sms));
}

CUdevResource SmsOf(unsigned int sms) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm = {.smCount = sms,
                 .minSmPartitionSize = kSmsOfPartition,
                 .smCoscheduledAlignment = kSmsOfPartition};
  return resource;
}

CUresult FindGreen(CUgreenCtx handle, Driver** driver, std::shared_ptr<Context>* context) {
  SIM_TRY(FindContext(handle, driver, context));
  return (*context)->is_green ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

SIM_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource,
                                           CUdevResourceType type) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckDevice(device));
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = SmsOf(driver->device().config().sm_count);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* groups,
                                                const CUdevResource* input,
                                                CUdevResource* remaining, unsigned int flags,
                                                unsigned int least) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (groups == nullptr || input == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const unsigned int sms = std::max(least, kSmsOfPartition);
  const unsigned int possible = input->sm.smCount / sms;
  if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (result == nullptr || *groups > possible) *groups = possible;
  if (result == nullptr) return CUDA_SUCCESS;
  for (unsigned int i = 0; i < *groups; ++i) result[i] = SmsOf(sms);
  if (remaining != nullptr) *remaining = SmsOf(input->sm.smCount - *groups * sms);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description,
                                              CUdevResource* resources, unsigned int count) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (description == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned int sms = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    sms += resources[i].sm.smCount;
  }
  if (sms == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *description = DescriptionOf(sms);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc description,
                                     CUdevice device, unsigned int flags) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckDevice(device));
  if (green == nullptr || description == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* const made = driver->CreateContext(0, device);
  made->is_green = true;
  *green = reinterpret_cast<CUgreenCtx>(made);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindGreen(green, &driver, &context));
  return driver->DestroyContext(context.get());
}

SIM_EXPORT CUresult cuCtxFromGreenCtx(CUcontext* handle, CUgreenCtx green) {
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindGreen(green, &driver, &context));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUcontext>(context.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx green, unsigned int flags,
                                           int priority) {
  Driver* driver;
  std::shared_ptr<Context> context;
  SIM_TRY(FindGreen(green, &driver, &context));
  if (stream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = reinterpret_cast<CUstream>(driver->CreateStream(*context, flags, priority).get());
  return CUDA_SUCCESS;
}
