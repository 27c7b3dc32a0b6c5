// Returning the first CUresult that is not success.
#pragma once

#include <cuda.h>

#define SIM_TRY(expression)                                                    \
  if (CUresult sim_try_result = (expression); sim_try_result != CUDA_SUCCESS) \
  return sim_try_result
