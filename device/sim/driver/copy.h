// Checks of copies and fills against what the program allocated, and whether the host waits for
// them (CUDA driver API, "API synchronization behavior"). Pure but for the tables they read.
#pragma once

#include "device/sim/driver/driver.h"

namespace cupola::sim {

/// What the two sides of a copy must be.
enum class CopyDirection : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kUnified };

/// Whether the call is one of the Async forms.
enum class CopyForm : uint8_t { kPlain, kAsync };

/// Checks the copy and enqueues it; waits where CUDA's call of that form does, and stages pageable
/// sources that are to be read later. Errors: CUDA_ERROR_INVALID_VALUE for a device side that is
/// no allocation of sufficient size.
CUresult Copy(Driver& driver, Stream& stream, CopyWork copy, CopyDirection direction,
              CopyForm form);

/// As Copy, for a box given by cuMemcpy2D/3D: memory types as in the structure. Arrays are refused.
CUresult CopyBox(Driver& driver, Stream& stream, const CUDA_MEMCPY3D& box, CopyForm form);
/// The work of such a box, checked, for graphs.
CUresult MakeCopyBox(Driver& driver, const CUDA_MEMCPY3D& box, CopyWork* copy);

/// Checks a fill: alignment to its element, inside one allocation.
CUresult CheckFill(Driver& driver, const FillWork& fill);

}  // namespace cupola::sim
