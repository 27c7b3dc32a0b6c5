// SIM_TRY: evaluates an expression once and returns its CUresult from the enclosing function, unless
// it is CUDA_SUCCESS. For the functions of this folder that return a CUresult; any thread.
#pragma once

#include <cuda.h>

#define SIM_TRY(expression)                                                    \
  if (CUresult sim_try_result = (expression); sim_try_result != CUDA_SUCCESS) \
  return sim_try_result
