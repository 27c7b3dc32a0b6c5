// How much of an SM's memory is to be shared memory, the rest being L1 cache. Any thread; asks the
// driver about a function that is loaded, and so waits for nothing.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept::preempt {

/// Percent of the SM's shared memory that `blocks` blocks of `function` need, each with `dynamic_shared`
/// bytes of it, rounded down (the driver takes the next configuration that it has); 0 = not known. CUDA
/// Driver API, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT.
uint32_t CarveoutFor(CUfunction function, uint32_t dynamic_shared, uint32_t blocks,
                     CUdevice device) noexcept;

}  // namespace cupola::intercept::preempt
