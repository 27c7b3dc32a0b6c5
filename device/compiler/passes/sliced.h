// The PTX in front of a kernel's body that makes a launch a slice of its grid: it runs block
// first_block + %ctaid.x, counted with x fastest. Sliced variants serve FLEP's comparison [section
// 6.5], and kernels whose blocks cannot run in a loop. Internal to the folder; pure.
#pragma once

#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Sets %cupola_x, _y and _z from SliceParams in `cupola_launch`. If `tells_functions`, also writes
/// cupola_block, with a barrier behind it, before any thread can have returned.
std::vector<ptx::Statement> MakeSliceCode(bool tells_functions);

}  // namespace cupola::passes
