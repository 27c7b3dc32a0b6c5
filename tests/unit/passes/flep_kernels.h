// The measured kernels of the evaluation's programs (tests/apps/flep), in the PTX that nvcc makes of
// them, each with a launch of few blocks and inputs by seed. The inputs are like the programs' but
// smaller: all that matters is that each block leaves a result of its own. Pure functions except that
// they read files.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::passes {

/// The programs' names: "cfd", "nn"...
const std::vector<std::string>& FlepKernels();

/// Reads the PTX of program `name` from CUPOLA_FLEP_PTX_FOLDER and makes a launch of `blocks` blocks
/// (for MM of the next multiple of four).
Result<sim::GoldenKernel> MakeFlepKernel(const std::string& name, uint32_t blocks);

}  // namespace cupola::passes
