// Launches that go out in slices, one behind the other on the program's stream, a gate before each
// (FLEP section 2.2, kernel slicing): where the configuration wants that, and where a kernel has no
// better form and others may ask this process to yield. Any thread.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/preempt/counters.h"

namespace cupola::intercept::preempt {

struct Attempt;

/// Blocks that a slice of this launch has; the last may have fewer. `workers` and `predicted_ns` of
/// the attempt are known.
uint32_t BlocksOfSlice(const Attempt& attempt) noexcept;

/// Launches it in slices. False: nothing was launched, it is to go out plain, and `*why`.
bool LaunchSliced(const Attempt& attempt, CUresult* result, Plain* why) noexcept;

}  // namespace cupola::intercept::preempt
