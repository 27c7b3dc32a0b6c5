// The carve-out: how much of an SM's memory is shared memory; the rest is L1 cache. variants.cpp asks
// for it once for each kernel and shape of blocks, for launches with one worker fewer on each SM than fit. Any
// thread. The driver is asked about a function that is already loaded, so nothing waits.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept::preempt {

/// The percentage of the SM's shared memory that `blocks` blocks of `function` need, each with
/// `dynamic_shared` bytes of dynamic shared memory; 0 = not known. It is rounded down, because the driver
/// takes the next larger configuration that it has. CUDA Driver API,
/// CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT.
uint32_t CarveoutFor(CUfunction function, uint32_t dynamic_shared, uint32_t blocks,
                     CUdevice device) noexcept;

}  // namespace cupola::intercept::preempt
