// The PTX in front of a kernel's body that makes a launch a slice of its grid: block first_block +
// %ctaid.x, counted x fastest. For FLEP's comparison [section 6.5], and where looping over blocks
// is illegal. Internal to the folder; pure.
#pragma once

#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Sets %cupola_x, _y and _z from SliceParams in `cupola_launch`; `tells_functions`: also
/// cupola_block, with a barrier, before any thread can have returned.
std::vector<ptx::Statement> MakeSliceCode(bool tells_functions);

}  // namespace cupola::passes
