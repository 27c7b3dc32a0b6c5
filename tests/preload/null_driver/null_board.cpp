// The null driver with what an arbiter's client needs: device memory is host memory, and a
// preemptible launch is complete when its call returns, without any block having run. So a launch and
// its guard cost the program what Cupola adds, and nothing else.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <cuda.h>

#include "device/runtime/preempt_control.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using cupola::runtime::PreemptParams;

constexpr int kMultiprocessors = 132, kBlocksOfOne = 8;

// Tells the host what the last worker of the launch would have told it. Nothing else that the tests
// launch has packed arguments that end like a variant's.
void CompleteVariant(void** extra) {
  const char* arguments = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) arguments = static_cast<const char*>(extra[1]);
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[1]);
  }
  if (arguments == nullptr || bytes < sizeof(PreemptParams)) return;
  PreemptParams params;
  memcpy(&params, arguments + bytes - sizeof(params), sizeof(params));
  auto* const status = reinterpret_cast<cupola::runtime::HostStatus*>(params.status);
  status->next_final[params.physical] = params.base_next + params.total_blocks;
  __atomic_store_n(&status->done, params.sequence, __ATOMIC_RELEASE);
  __atomic_store_n(&status->ended[params.physical], params.tag, __ATOMIC_RELEASE);
}

}  // namespace

#define LAUNCH_KERNEL(form)                                                                       \
  EXPORT CUresult form(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                       unsigned, CUstream, void**, void** extra) {                                \
    if (extra != nullptr) CompleteVariant(extra);                                                 \
    return CUDA_SUCCESS;                                                                          \
  }
LAUNCH_KERNEL(cuLaunchKernel)
LAUNCH_KERNEL(cuLaunchKernel_ptsz)

EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? kMultiprocessors : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  *blocks = kBlocksOfOne;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetFlags(CUstream, unsigned* flags) {
  *flags = CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

// Memory. It is zero, which makes a memory set unnecessary.
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  *address = reinterpret_cast<CUdeviceptr>(calloc(1, bytes));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
