// The measured kernels of the evaluation's programs (tests/apps/flep), as nvcc makes PTX of them,
// each with a launch of few blocks and inputs by seed. The inputs are of the programs' kind, but
// less: what counts is that each block leaves something of its own. Pure functions but for reading
// files.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::passes {

/// "cfd", "nn"...
const std::vector<std::string>& FlepKernels();

/// Reads the PTX of program `name` from CUPOLA_FLEP_PTX_FOLDER; a launch of `blocks` blocks (of
/// MM's next multiple of four).
Result<sim::GoldenKernel> MakeFlepKernel(const std::string& name, uint32_t blocks);

}  // namespace cupola::passes
