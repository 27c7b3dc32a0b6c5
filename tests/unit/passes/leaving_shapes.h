// The kernels of tests/cases/lanes_return_before_a_barrier/shapes.cu, in the PTX that nvcc makes of them, each with a
// launch: some lanes leave early and the others go on to barriers, in every way. Pure functions except that they read
// the file; one thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::passes {

/// The kernels' names, mangled; empty where there is no nvcc.
std::vector<std::string> LeavingShapes();

/// One of the kernels and a launch in which each pattern of leaving lanes has a block. Errors: kNotFound.
Result<sim::GoldenKernel> MakeLeavingShape(const std::string& kernel);

}  // namespace cupola::passes
