#include <algorithm>
#include <cstdint>
#include <cstring>

#include "device/sim/driver/driver.h"
#include "device/sim/driver/say.h"

namespace cupola::sim {
namespace {

// CUDA C++ programming guide, "Technical specifications per compute capability", 9.0.
constexpr uint64_t kMaxGridX = 2147483647, kMaxGridYZ = 65535;
constexpr uint32_t kMaxBlockXY = 1024, kMaxBlockZ = 64;
constexpr uint64_t kMaxPortableCluster = 8;
/// The most shared memory, in bytes, that a block may have where the kernel's attribute is not set.
constexpr uint64_t kSharedWithoutAsking = 48 << 10;

bool AnyZero(const Dim3& extents) { return extents.x == 0 || extents.y == 0 || extents.z == 0; }
bool AllZero(const Dim3& extents) { return extents.x == 0 && extents.y == 0 && extents.z == 0; }
bool AreEqual(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

CUresult CheckExtents(const Driver::LaunchShape& shape, const KernelInfo& info) {
  const Dim3 grid = shape.grid, block = shape.block;
  if (AnyZero(grid) || AnyZero(block) || grid.x > kMaxGridX || grid.y > kMaxGridYZ ||
      grid.z > kMaxGridYZ) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (block.x > kMaxBlockXY || block.y > kMaxBlockXY || block.z > kMaxBlockZ ||
      block.x * block.y * block.z > info.max_threads_per_block) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_required = AllZero(info.required_threads) || AreEqual(block, info.required_threads);
  return is_required ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckShared(const Driver::LaunchShape& shape, const Function& function) {
  const uint64_t bytes = shape.dynamic_shared_bytes;
  if (bytes <= function.max_dynamic_shared_bytes) return CUDA_SUCCESS;
  // For a cooperative launch, the driver first counts how many blocks fit at a time, and that count
  // has a limit of its own.
  const uint64_t fixed = function.info->static_shared_bytes;
  const uint64_t most = std::max(kSharedWithoutAsking, fixed + function.max_dynamic_shared_bytes);
  const bool counts_none = shape.cooperative && bytes <= INT32_MAX && fixed + bytes > most;
  return counts_none ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckClusters(const Driver::LaunchShape& shape, const KernelInfo& info) {
  Dim3 cluster = info.cluster;
  if (!AllZero(shape.cluster)) {
    if (!AllZero(cluster) && !AreEqual(cluster, shape.cluster)) {
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    cluster = shape.cluster;
  }
  if (AllZero(cluster)) return CUDA_SUCCESS;
  if (AnyZero(cluster) || shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 ||
      shape.grid.z % cluster.z != 0 ||
      uint64_t{cluster.x} * cluster.y * cluster.z > kMaxPortableCluster) {
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  if (AllZero(shape.cluster) || AreEqual(cluster, {1, 1, 1})) return CUDA_SUCCESS;
  SayLacks("a launch with CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CheckShape(const Driver::LaunchShape& shape, const Function& function) {
  if (CUresult result = CheckExtents(shape, *function.info); result != CUDA_SUCCESS) return result;
  if (CUresult result = CheckShared(shape, function); result != CUDA_SUCCESS) return result;
  return CheckClusters(shape, *function.info);
}

/// Packs the parameters of a launch as cuLaunchKernel takes them: `params` has a pointer per
/// parameter, or `extra` names a buffer that holds all of them.
CUresult PackParams(const KernelInfo& info, bool is_node, void** params, void** extra,
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
  if (buffer == nullptr || bytes == nullptr) {
    return info.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  // A buffer larger than the kernel's parameters is refused. A smaller one is accepted; the
  // parameters that it lacks are undefined.
  if (*bytes > info.param_bytes) {
    return is_node ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  std::memcpy(packed->data(), buffer, *bytes);
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
  if (resident == 0) {
    return shape.cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                             : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  if (shape.cooperative && blocks > uint64_t{resident} * device_->config().sm_count) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  if (CUresult result =
          PackParams(*function->info, shape.is_node, params, extra, &work->launch.params);
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
