#include "intercept/preempt/carveout.h"

#include "intercept/process/driver_calls.h"

namespace cupola::intercept::preempt {

uint32_t CarveoutFor(CUfunction function, uint32_t dynamic_shared, uint32_t blocks,
                     CUdevice device) noexcept {
  const auto of_function = CUPOLA_CALL_REAL(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020);
  const auto of_device = CUPOLA_CALL_REAL(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000);
  int own = 0, reserved = 0, all = 0;
  if (of_function(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) != CUDA_SUCCESS ||
      of_device(&reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, device) !=
          CUDA_SUCCESS ||
      of_device(&all, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device) !=
          CUDA_SUCCESS ||
      all <= 0) {
    return 0;
  }
  const uint64_t block = static_cast<uint64_t>(own) + static_cast<uint64_t>(reserved) + dynamic_shared;
  return static_cast<uint32_t>(block * blocks * 100 / static_cast<uint64_t>(all));
}

}  // namespace cupola::intercept::preempt
