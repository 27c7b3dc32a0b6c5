// Calls of the driver API from a program that is linked with the runtime only: looked up by name,
// and checked. Any error ends the program with exit code 1 and a message.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#include "tests/apps/support/check_runtime.h"

/// `version`: of CUDA, that whose form of the call is wanted, as in 12000.
template <typename Call>
Call DriverCall(const char* name, unsigned version) {
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion(name, &call, version, cudaEnableDefault, &found));
  return reinterpret_cast<Call>(call);
}

inline void CheckDriver(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s failed: %d\n", what, static_cast<int>(result));
  std::exit(1);
}
