#include "intercept/launch/packed_launch.h"

#include <cstring>

#include "intercept/images/variant.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept {
namespace {

// Whether the attribute means the same for a variant; `matters`: whether the variant's launch needs
// it. Attributes that are not named here are refused. CUDA Driver API, CUlaunchAttributeID.
bool MeansTheSame(const CUlaunchAttribute& attribute, bool* matters) {
  *matters = true;
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default: break;
  }
  *matters = false;
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE: return true;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: return attribute.value.cooperative == 0;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      // No clusters, or clusters of one block. Other mixtures of zeros and ones are refused here,
      // since the driver refuses some of them.
      return attribute.value.clusterDim.x <= 1 &&
             attribute.value.clusterDim.y == attribute.value.clusterDim.x &&
             attribute.value.clusterDim.z == attribute.value.clusterDim.x;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      return attribute.value.programmaticStreamSerializationAllowed == 0;
    default: return false;
  }
}

}  // namespace

bool LieAsBundled(const Variant& variant, CUfunction function, uint32_t own_bytes) noexcept {
  const auto info = CUPOLA_CALL_REAL(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040);
  const store::KernelEntry& entry = *variant.entry;
  const uint32_t count = entry.parameters + (own_bytes != 0 ? 1 : 0);
  for (uint32_t i = 0; i <= count; ++i) {
    size_t offset = 0, bytes = 0;
    const CUresult result = info(function, i, &offset, &bytes);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) return true;
    if ((result == CUDA_SUCCESS) != (i < count)) return false;
    if (i == count) break;
    const store::ParameterEntry wanted = i < entry.parameters
                                             ? variant.parameters[i]
                                             : store::ParameterEntry{entry.launch_offset, own_bytes, 0};
    if (offset != wanted.offset || bytes != wanted.bytes) return false;
  }
  return true;
}

bool UnpackExtra(void** extra, const std::byte** buffer, size_t* bytes) noexcept {
  *buffer = nullptr;
  *bytes = 0;
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (i > 8) return false;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = static_cast<const std::byte*>(extra[i + 1]);
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != nullptr) {
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    } else {
      return false;
    }
  }
  return true;
}

void KeptAttributes::SetPriority(int32_t value) noexcept {
  list[count] = CUlaunchAttribute{};
  list[count].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  list[count].value.priority = value;
  ++count;
  has_priority = true;
  priority = value;
}

// 14 is CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, which toolkits before 12.5 do not name.
void KeptAttributes::SetCarveout(uint32_t percent) noexcept {
  list[count] = CUlaunchAttribute{};
  list[count].id = static_cast<CUlaunchAttributeID>(14);
  memcpy(&list[count].value, &percent, sizeof(percent));
  ++count;
}

bool KeepAttributes(const Launch& launch, KeptAttributes* kept) noexcept {
  if (launch.attribute_count != 0 && launch.attributes == nullptr) return false;
  for (unsigned i = 0; i < launch.attribute_count; ++i) {
    const CUlaunchAttribute& attribute = launch.attributes[i];
    bool matters = false;
    if (!MeansTheSame(attribute, &matters)) return false;
    if (!matters) continue;
    if (kept->count == KeptAttributes::kMost) return false;
    kept->list[kept->count++] = attribute;
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_PRIORITY) continue;
    kept->has_priority = true;
    kept->priority = attribute.value.priority;
  }
  return true;
}

bool CopyPacked(void** extra, uint32_t bytes, void* to) noexcept {
  const std::byte* buffer;
  size_t given;
  if (!UnpackExtra(extra, &buffer, &given)) return false;
  // Drivers refuse a larger buffer [measured: tests/cases/launch_checks], and take a smaller one for
  // the first parameters.
  if (given != bytes) return false;
  if (bytes == 0) return true;
  if (buffer == nullptr) return false;
  memcpy(to, buffer, bytes);
  return true;
}

bool PackArguments(const Variant& variant, const Launch& launch, std::byte* to) noexcept {
  const store::KernelEntry& entry = *variant.entry;
  if (entry.parameter_bytes > entry.launch_offset ||
      entry.launch_offset > kArgumentBytes - sizeof(runtime::PreemptParams)) {
    return false;
  }
  memset(to + entry.parameter_bytes, 0, entry.launch_offset - entry.parameter_bytes);
  return CopyArguments(launch.params, launch.extra, variant.parameters, entry.parameters, entry.parameter_bytes,
                       to);
}

CUresult LaunchRow(const RowLaunch& row, uint32_t blocks) noexcept {
  size_t bytes = row.bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, row.arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  if (row.attributes.count == 0) {
    const auto launch_kernel = Real<PFN_cuLaunchKernel_v4000>(row.per_thread ? Call::k_cuLaunchKernel_ptsz
                                                                      : Call::k_cuLaunchKernel);
    return launch_kernel(row.function, blocks, 1, 1, row.block[0], row.block[1], row.block[2],
                  row.shared_bytes, row.stream, nullptr, extra);
  }
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = row.block[0];
  config.blockDimY = row.block[1];
  config.blockDimZ = row.block[2];
  config.sharedMemBytes = row.shared_bytes;
  config.hStream = row.stream;
  config.attrs = const_cast<CUlaunchAttribute*>(row.attributes.list);
  config.numAttrs = row.attributes.count;
  const auto launch_kernel = Real<PFN_cuLaunchKernelEx_v11060>(
      row.per_thread ? Call::k_cuLaunchKernelEx_ptsz : Call::k_cuLaunchKernelEx);
  return launch_kernel(&config, row.function, nullptr, extra);
}

}  // namespace cupola::intercept
