// cuLaunchKernel with its extended and cooperative forms.
#include <cstdint>
#include <cstring>
#include <shared_mutex>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

CUresult Launch(DefaultStream null_means, CUfunction function, const Driver::LaunchShape& shape,
                CUstream handle, void** params, void** extra) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  KernelWork work;
  SIM_TRY(driver->MakeKernelWork(*context, function, shape, params, extra, &work));
  const std::shared_lock launches(stream->context->launches);
  return driver->Enqueue(*stream, std::move(work));
}

// Values of CUlaunchAttributeID that earlier toolkits do not name: preferred cluster dimension, preferred
// shared memory carve-out, scheduling for NVLink.
constexpr unsigned kPreferredCluster = 11, kCarveout = 14, kLinkCentric = 16;

/// Reads the attributes of a launch. Accepts those that have no effect here, and refuses, by name,
/// those that would change what the kernel computes.
CUresult ReadAttributes(const CUlaunchConfig& config, Driver::LaunchShape* shape) {
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    switch (static_cast<unsigned>(attribute.id)) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                          attribute.value.clusterDim.z};
        break;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        if (attribute.value.memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        break;
      case kCarveout: {
        uint32_t percent = 0;
        std::memcpy(&percent, &attribute.value, sizeof(percent));
        if (percent > 100 && percent != ~0u) return CUDA_ERROR_INVALID_VALUE;
        break;
      }
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        SayLacks("a launch with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT");
        return CUDA_ERROR_NOT_SUPPORTED;
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        SayLacks("a launch with CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT");
        return CUDA_ERROR_NOT_SUPPORTED;
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        SayLacks("a launch with CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE");
        return CUDA_ERROR_NOT_SUPPORTED;
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case kPreferredCluster:
      case kLinkCentric: break;  // only hints for performance
      default: return CUDA_ERROR_INVALID_VALUE;  // for streams only, or from another CUDA version
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_CALL_BOTH(cuLaunchKernel, _ptsz,
              (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
               unsigned int block_x, unsigned int block_y, unsigned int block_z,
               unsigned int dynamic_bytes, CUstream stream, void** params, void** extra),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_bytes, stream,
               params, extra)) {
  const Driver::LaunchShape shape{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_bytes, false};
  return Launch(null_means, function, shape, stream, params, extra);
}

SIM_CALL_BOTH(cuLaunchCooperativeKernel, _ptsz,
              (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
               unsigned int block_x, unsigned int block_y, unsigned int block_z,
               unsigned int dynamic_bytes, CUstream stream, void** params),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_bytes, stream,
               params)) {
  const Driver::LaunchShape shape{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_bytes, true};
  return Launch(null_means, function, shape, stream, params, nullptr);
}

SIM_CALL_BOTH(cuLaunchKernelEx, _ptsz,
              (const CUlaunchConfig* config, CUfunction function, void** params, void** extra),
              (config, function, params, extra)) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Driver::LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes,
                            false};
  SIM_TRY(ReadAttributes(*config, &shape));
  return Launch(null_means, function, shape, config->hStream, params, extra);
}
