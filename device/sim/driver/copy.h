// Checks copies and fills against what the program allocated, and decides whether the calling
// thread waits for them (CUDA driver API, "API synchronization behavior"). The calls in
// api_copy.cpp and the graph nodes use it, from any thread. It keeps no state.
#pragma once

#include "device/sim/driver/driver.h"

namespace cupola::sim {

/// Which sides of a copy must be device memory. kUnified: either side may be any memory.
enum class CopyDirection : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kUnified };

/// Whether the call is one of CUDA's Async forms.
enum class CopyForm : uint8_t { kPlain, kAsync };

/// Checks the copy and enqueues it. Waits for its end where CUDA's call of that form does. Where
/// the call returns before a pageable source is read, the source is copied aside first. Errors:
/// CUDA_ERROR_INVALID_VALUE for a device side that is not inside one allocation.
CUresult Copy(Driver& driver, Stream& stream, CopyWork copy, CopyDirection direction,
              CopyForm form);

/// As Copy, for the box of a cuMemcpy2D or cuMemcpy3D call; the structure names the memory types.
/// CUDA_ERROR_NOT_SUPPORTED for a CUDA array.
CUresult CopyBox(Driver& driver, Stream& stream, const CUDA_MEMCPY3D& box, CopyForm form);
/// Checks such a box and makes its work, for a graph's node. Enqueues nothing.
CUresult MakeCopyBox(Driver& driver, const CUDA_MEMCPY3D& box, CopyWork* copy);

/// CUDA_ERROR_INVALID_VALUE unless the fill is aligned to its element and inside one allocation.
CUresult CheckFill(Driver& driver, const FillWork& fill);

}  // namespace cupola::sim
