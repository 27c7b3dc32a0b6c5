// A libcudart for tests: its launch calls check their arguments, say which library they belong to, and
// launch through the driver like the real one. Built twice, as libcudart.so.12 and libcudart.so.13.
#include <cstddef>

#include <cuda.h>
#include <dlfcn.h>

namespace {

struct Dim3 {
  unsigned x, y, z;
};

int LaunchOnDriver(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                   void* stream) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  const auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(driver, "cuLaunchKernel"));
  if (launch == nullptr) return 35;
  const CUresult result =
      launch(static_cast<CUfunction>(const_cast<void*>(function)), grid.x, grid.y, grid.z, block.x,
             block.y, block.z, static_cast<unsigned>(shared), static_cast<CUstream>(stream),
             arguments, nullptr);
  return result == CUDA_SUCCESS ? RUNTIME_VERSION : -1;
}

}  // namespace

// Each call answers with the version of its library, so that a caller sees which one it reached.
#define LAUNCH(name)                                                                    \
  extern "C" __attribute__((visibility("default"))) int name(                           \
      const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,     \
      void* stream) {                                                                   \
    return LaunchOnDriver(function, grid, block, arguments, shared, stream);            \
  }
LAUNCH(cudaLaunchKernel)
LAUNCH(__cudaLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)
extern "C" __attribute__((visibility("default"))) int cudaLaunchKernelExC(const void*,
                                                                          const void* function,
                                                                          void** arguments) {
  return LaunchOnDriver(function, {91, 92, 93}, {1, 1, 1}, arguments, 0, nullptr);
}
