// A library that calls a shared libcudart, as the code does that nvcc makes of <<<>>> in a plug-in.
#include <cstddef>

struct Dim3 {
  unsigned x, y, z;
};
extern "C" int cudaLaunchKernel(const void*, Dim3, Dim3, void**, size_t, void*);
extern "C" int __cudaLaunchKernel(const void*, Dim3, Dim3, void**, size_t, void*);
extern "C" int cudaLaunchCooperativeKernel(const void*, Dim3, Dim3, void**, size_t, void*);
extern "C" int cudaLaunchKernelExC(const void*, const void*, void**);

extern "C" __attribute__((visibility("default"))) int call_runtime(int door, const void* function,
                                                                   void** arguments, void* stream) {
  const Dim3 grid = {41, 42, 43}, block = {44, 45, 46};
  // The result is kept in a variable, so that the call is not compiled to a jump, with which the caller would be this
  // function's caller.
  volatile int result = 0;
  switch (door) {
    case 0: result = cudaLaunchKernel(function, grid, block, arguments, 47, stream); break;
    case 1: result = __cudaLaunchKernel(function, grid, block, arguments, 47, stream); break;
    case 2:
      result = cudaLaunchCooperativeKernel(function, grid, block, arguments, 47, stream);
      break;
    default: result = cudaLaunchKernelExC(nullptr, function, arguments);
  }
  return result;
}
