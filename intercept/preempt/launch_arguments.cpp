#include "intercept/preempt/launch_arguments.h"

#include <cstring>

#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/variants.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::preempt {
namespace {

// CUDA Driver API, CUlaunchAttributeID. What is not named here is refused.
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
      // None, or clusters of one block; the driver refuses some of a dimension that are none.
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

// CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, which toolkits before 12.5 do not name.
void KeptAttributes::SetCarveout(uint32_t percent) noexcept {
  list[count] = CUlaunchAttribute{};
  list[count].id = static_cast<CUlaunchAttributeID>(14);
  memcpy(&list[count].value, &percent, sizeof(percent));
  ++count;
}

bool KeepAttributes(const LaunchCall& call, KeptAttributes* kept) noexcept {
  if (call.attribute_count != 0 && call.attributes == nullptr) return false;
  for (unsigned i = 0; i < call.attribute_count; ++i) {
    const CUlaunchAttribute& attribute = call.attributes[i];
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
  // Drivers refuse more [measured: tests/cases/launch_checks], and take less for the first of them.
  if (given != bytes) return false;
  if (bytes == 0) return true;
  if (buffer == nullptr) return false;
  memcpy(to, buffer, bytes);
  return true;
}

bool PackArguments(const Variant& variant, const LaunchCall& call, std::byte* to) noexcept {
  const store::KernelEntry& entry = *variant.entry;
  if (entry.parameter_bytes > entry.launch_offset ||
      entry.launch_offset > kArgumentBytes - sizeof(runtime::PreemptParams)) {
    return false;
  }
  memset(to + entry.parameter_bytes, 0, entry.launch_offset - entry.parameter_bytes);
  return CopyArguments(call.params, call.extra, variant.parameters, entry.parameters, entry.parameter_bytes,
                       to);
}

}  // namespace cupola::intercept::preempt
