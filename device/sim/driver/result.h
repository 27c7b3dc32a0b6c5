// SIM_TRY: evaluates an expression and returns its CUresult from the enclosing function unless it
// is CUDA_SUCCESS.
#pragma once

#include <cuda.h>

#define SIM_TRY(expression)                                                    \
  if (CUresult sim_try_result = (expression); sim_try_result != CUDA_SUCCESS) \
  return sim_try_result
