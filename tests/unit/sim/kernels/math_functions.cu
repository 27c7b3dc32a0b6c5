// The math library as nvcc compiles it, a kernel for each function over arrays of arguments.
#define KERNEL(name, type, call)                                                         \
  extern "C" __global__ void name##_##type(const type* x, const type* y, type* result) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                 \
    result[i] = call;                                                                    \
  }
#define UNARY(name) KERNEL(name, float, name##f(x[i])) KERNEL(name, double, name(x[i]))
#define BINARY(name) \
  KERNEL(name, float, name##f(x[i], y[i])) KERNEL(name, double, name(x[i], y[i]))
#define MATH_FUNCTION(name, operands, ...) operands(name)
#include "tests/unit/sim/kernels/math_functions.def"
