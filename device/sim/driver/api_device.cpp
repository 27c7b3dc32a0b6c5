// The calls cuDevice*.
#include <cstring>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

constexpr char kName[] = "Cupola simulated device";
constexpr char kPciBusId[] = "0000:00:00.0";

/// The value of an attribute: that of sm_90, or that of the configuration where it has one. False
/// for an unknown attribute.
bool AttributeOf(const DeviceConfig& config, CUdevice_attribute attribute, int* value) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 * 1024; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 64 * 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;         // kHz
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break;  // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: *value = 512; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: *value = 512; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(config.sm_count);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = static_cast<int>(config.max_threads_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = static_cast<int>(config.max_blocks_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = static_cast<int>(config.shared_bytes_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(config.max_shared_bytes_per_block);
      break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 4 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED: *value = SharesContext() ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    // Every other known attribute is a feature (textures, clusters, peers) that the simulated
    // device does not have, or a limit of one.
    default: *value = 0; return attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
  }
  return true;
}

CUresult CopyText(const char* text, char* to, int bytes) {
  if (to == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(to, text, static_cast<size_t>(bytes));
  to[bytes - 1] = '\0';
  return CUDA_SUCCESS;
}

}  // namespace

SIM_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(ordinal));
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = DeviceCount();
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckDevice(device));
  return CopyText(kName, name, bytes);
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckDevice(device));
  return CopyText(kPciBusId, id, bytes);
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::strcmp(id, kPciBusId) != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  std::memcpy(uuid->bytes, "Cupola sim dev 0", 16);
  uuid->bytes[15] = static_cast<char>('0' + device);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  *bytes = driver->device().config().memory_bytes;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                         CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  const bool is_known = AttributeOf(driver->device().config(), attribute, value);
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  SIM_TRY(cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckDevice(device));
  SIM_TRY(CheckDevice(peer));
  *can = 0;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckHasPrimary(device));
  *context = reinterpret_cast<CUcontext>(driver->RetainPrimary());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckHasPrimary(device));
  return driver->ReleasePrimary();
}
SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckHasPrimary(device));
  driver->ResetPrimary();
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  SIM_TRY(CheckHasPrimary(device));
  const unsigned int schedule = flags & CU_CTX_SCHED_MASK;
  const bool is_one_schedule = (schedule & (schedule - 1)) == 0;
  if ((flags & ~CU_CTX_FLAGS_MASK) != 0 || !is_one_schedule) return CUDA_ERROR_INVALID_VALUE;
  driver->SetPrimaryFlags(flags);
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(CheckHasPrimary(device));
  const Driver::PrimaryState state = driver->primary_state();
  *flags = state.flags;
  *active = state.active ? 1 : 0;
  return CUDA_SUCCESS;
}
