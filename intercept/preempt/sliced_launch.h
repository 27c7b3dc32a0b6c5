// Sliced launches: a launch goes out as several launches of parts of its grid, one behind the other
// on the program's stream, with a gate before each (FLEP section 2.2, kernel slicing). Launches are
// sliced if the configuration wants that, or if a kernel has no better form and others may ask this
// process to yield. Any thread.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/launch/launch_counters.h"

namespace cupola::intercept::preempt {

struct Attempt;

/// The number of blocks of a slice of this launch; the last slice may have fewer. `workers` and
/// `expected` of the attempt must be known.
uint32_t BlocksOfSlice(const Attempt& attempt) noexcept;

/// Makes the launch in slices. False: nothing was launched, it must go out plain, and `*why` is the
/// reason. May wait for room in the stream.
bool LaunchSliced(const Attempt& attempt, CUresult* result, Reason* why) noexcept;

}  // namespace cupola::intercept::preempt
