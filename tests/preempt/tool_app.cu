// A program that may profile itself: tool_app WHAT LIBRARY. WHAT: none; loaded: it loads LIBRARY, a
// libcupti, and calls none of its functions; used: it calls one before its first launch; late:
// before its second. Each launch is of a kernel that has a variant.
#include <cstdio>
#include <string>

#include <dlfcn.h>

#include "tests/apps/support/check_runtime.h"
#include "tests/preempt/kernels.h"

__device__ uint32_t all_values[1];  // that the hand-written variants know

extern "C" __global__ void Fold(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds) {
  FoldBlock({blockIdx, gridDim}, runs, value, tag, rounds);
}

int main(int argc, char** argv) {
  constexpr int kBlocks = 100, kLaunches = 4;
  const std::string what = argc > 2 ? argv[1] : "none";
  void* library = nullptr;
  if (what != "none" && (library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)) == nullptr) return 2;
  const auto use = [library] {
    unsigned version = 0;
    return reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "cuptiGetVersion"))(&version);
  };
  if (what == "used" && use() != 0) return 3;
  uint32_t *runs, *value, first = 0;
  CHECK(cudaMalloc(&runs, 4 * kBlocks));
  CHECK(cudaMalloc(&value, 4 * kBlocks));
  CHECK(cudaMemset(runs, 0, 4 * kBlocks));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kLaunches; ++i) {
    if (i == 1 && what == "late" && use() != 0) return 3;
    Fold<<<kBlocks, 32>>>(runs, value, 1, 10);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&first, runs, 4, cudaMemcpyDeviceToHost));
  std::printf("%u runs\n", first);
  return first == kLaunches ? 0 : 1;
}
