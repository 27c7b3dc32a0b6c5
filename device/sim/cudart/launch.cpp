// Kernel launches. CUDA Runtime API, "Execution Control". For <<<>>>, nvcc's host code pushes the
// configuration and calls the host stub, which pops it and launches.
#include <vector>

#include "base/per_thread.h"
#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<CallConfiguration>& Configurations() {
  static auto* const stacks = new PerThread<std::vector<CallConfiguration>>;
  return stacks->Get();
}

/// Whether the size fits into the driver's unsigned int. One that does not is more than any device
/// has.
bool FitsDriver(size_t shared_bytes) { return shared_bytes <= ~0u; }

cudaError_t Launch(const DriverCalls& calls, const void* function, dim3 grid, dim3 block,
                   void** args, size_t shared_bytes, cudaStream_t stream) {
  if (!FitsDriver(shared_bytes)) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(calls.cuLaunchKernel(
      reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
      static_cast<unsigned>(shared_bytes), stream, args, nullptr));
}

cudaError_t LaunchCooperative(const DriverCalls& calls, const void* function, dim3 grid, dim3 block,
                              void** args, size_t shared_bytes, cudaStream_t stream) {
  if (!FitsDriver(shared_bytes)) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(calls.cuLaunchCooperativeKernel(
      reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
      static_cast<unsigned>(shared_bytes), stream, args));
}

cudaError_t LaunchEx(const DriverCalls& calls, const cudaLaunchConfig_t* config,
                     const void* function, void** args) {
  if (config == nullptr || !FitsDriver(config->dynamicSmemBytes)) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  // cudaLaunchAttribute and CUlaunchAttribute have the same layout and the same ids.
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  CUlaunchConfig driver_config = {};
  driver_config.gridDimX = config->gridDim.x;
  driver_config.gridDimY = config->gridDim.y;
  driver_config.gridDimZ = config->gridDim.z;
  driver_config.blockDimX = config->blockDim.x;
  driver_config.blockDimY = config->blockDim.y;
  driver_config.blockDimZ = config->blockDim.z;
  driver_config.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  driver_config.hStream = config->stream;
  driver_config.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  driver_config.numAttrs = config->numAttrs;
  return static_cast<cudaError_t>(calls.cuLaunchKernelEx(
      &driver_config, reinterpret_cast<CUfunction>(kernel), args, nullptr));
}

}  // namespace
}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                cudaStream_t stream) {
  Configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

extern "C" cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                  void* stream) {
  if (Configurations().empty()) return Leave(cudaErrorMissingConfiguration);
  const CallConfiguration& top = Configurations().back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  Configurations().pop_back();
  return cudaSuccess;
}

CUPOLA_CUDART_STREAM_CALL(__cudaLaunchKernel, _ptsz,
                          (cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                           size_t shared_bytes, cudaStream_t stream),
                          Launch(calls, kernel, grid, block, args, shared_bytes, stream))
CUPOLA_CUDART_STREAM_CALL(cudaLaunchKernel, _ptsz,
                          (const void* function, dim3 grid, dim3 block, void** args,
                           size_t shared_bytes, cudaStream_t stream),
                          Launch(calls, function, grid, block, args, shared_bytes, stream))
CUPOLA_CUDART_STREAM_CALL(cudaLaunchCooperativeKernel, _ptsz,
                          (const void* function, dim3 grid, dim3 block, void** args,
                           size_t shared_bytes, cudaStream_t stream),
                          LaunchCooperative(calls, function, grid, block, args, shared_bytes,
                                            stream))
CUPOLA_CUDART_STREAM_CALL(cudaLaunchKernelExC, _ptsz,
                          (const cudaLaunchConfig_t* config, const void* function, void** args),
                          LaunchEx(calls, config, function, args))
CUPOLA_CUDART_STREAM_CALL(cudaLaunchHostFunc, _ptsz,
                          (cudaStream_t stream, cudaHostFn_t function, void* data),
                          calls.cuLaunchHostFunc(stream, function, data))
