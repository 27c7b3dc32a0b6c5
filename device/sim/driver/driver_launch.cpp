#include <algorithm>
#include <cstring>

#include "device/sim/driver/driver.h"

namespace cupola::sim {
namespace {

// CUDA C++ programming guide, "Technical specifications per compute capability", 9.0.
constexpr uint64_t kMaxGridX = 2147483647, kMaxGridYZ = 65535;
constexpr uint32_t kMaxBlockXY = 1024, kMaxBlockZ = 64;

CUresult CheckShape(const Driver::LaunchShape& shape, const Function& function) {
  const Dim3 grid = shape.grid, block = shape.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (block.x > kMaxBlockXY || block.y > kMaxBlockXY || block.z > kMaxBlockZ || threads > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.dynamic_shared_bytes > function.max_dynamic_shared_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads > function.info->max_threads_per_block) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  return CUDA_SUCCESS;
}

/// cuLaunchKernel: `params` has a pointer per parameter; `extra` a buffer with all of them.
CUresult PackParams(const KernelInfo& info, void** params, void** extra,
                    std::vector<std::byte>* packed) {
  packed->assign(info.param_bytes, std::byte{0});
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params != nullptr) {
    for (size_t i = 0; i < info.params.size(); ++i) {
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(packed->data() + info.params[i].offset, params[i], info.params[i].size);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return info.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  const size_t* bytes = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || bytes == nullptr || *bytes < info.param_bytes) {
    return info.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(packed->data(), buffer, info.param_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Driver::MakeKernelWork(Context& context, CUfunction handle, const LaunchShape& shape,
                                void** params, void** extra, KernelWork* work) {
  std::shared_ptr<Function> function;
  if (CUresult result = ResolveFunction(context, handle, &function); result != CUDA_SUCCESS) {
    return result;
  }
  if (CUresult result = CheckShape(shape, *function); result != CUDA_SUCCESS) return result;
  const auto threads = shape.block.x * shape.block.y * shape.block.z;
  const uint32_t resident =
      device_->MaxResidentBlocks(*function->info, threads, shape.dynamic_shared_bytes);
  if (resident == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  if (shape.cooperative && blocks > uint64_t{resident} * device_->config().sm_count) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  if (CUresult result = PackParams(*function->info, params, extra, &work->launch.params);
      result != CUDA_SUCCESS) {
    return result;
  }
  work->name = function->info->name;
  work->function = reinterpret_cast<CUfunction>(function.get());
  work->kernel = kernels.Find(handle) ? reinterpret_cast<CUkernel>(handle) : nullptr;
  work->launch.module = function->module->loaded;
  work->launch.kernel_index = function->index;
  work->launch.grid = shape.grid;
  work->launch.block = shape.block;
  work->launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  work->launch.cooperative = shape.cooperative;
  return CUDA_SUCCESS;
}

}  // namespace cupola::sim
