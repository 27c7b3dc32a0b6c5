// CHECK(call) for the driver API: any error ends the program with exit code 1 and a message.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    const CUresult check_error = (call);                                                       \
    if (check_error != CUDA_SUCCESS) {                                                         \
      std::fprintf(stderr, "line %d: %s: CUDA error %d\n", __LINE__, #call,                    \
                   static_cast<int>(check_error));                                             \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)
