// CHECK(call) for the runtime API: any error ends the program with exit code 1 and a message.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    const cudaError_t check_error = (call);                                                    \
    if (check_error != cudaSuccess) {                                                          \
      std::fprintf(stderr, "line %d: %s: %s (%d)\n", __LINE__, #call,                          \
                   cudaGetErrorString(check_error), static_cast<int>(check_error));            \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)
