#include "narrow_modules.h"

namespace {

__global__ void Step(uint32_t* values, uint32_t tag, int rounds) {
  __syncthreads();  // all warps of the block are under way at the same time
  if (threadIdx.x >= kThreads) return;
  values[threadIdx.x] =
      values[threadIdx.x] * 7 + TurnsOf<kWordsOfThird>(tag + threadIdx.x, rounds);
}

}  // namespace

void LaunchThird(cudaStream_t stream, uint32_t* values, uint32_t tag) {
  Step<<<1, tag % 16 == 0 ? 10 * kThreads : kThreads, 0, stream>>>(values, tag, 2);
}
