// Makes streams of many priorities after a kernel that has a variant, and runs it on each; prints the
// priorities that the streams say they have.
#include <cstdio>

#include "tests/apps/support/check_runtime.h"
#include "tests/preempt/kernels.h"

__device__ uint32_t all_values[1];  // that the hand-written variants know

extern "C" __global__ void Fold(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds) {
  FoldBlock({blockIdx, gridDim}, runs, value, tag, rounds);
}

int main() {
  constexpr int kBlocks = 100, kStreams = 9;
  const int priorities[kStreams] = {1, 0, -1, -2, -1, -5, -6, -100, -1};
  uint32_t *runs, *value, first = 0;
  CHECK(cudaMalloc(&runs, 4 * kBlocks));
  CHECK(cudaMalloc(&value, 4 * kBlocks));
  CHECK(cudaMemset(runs, 0, 4 * kBlocks));
  CHECK(cudaDeviceSynchronize());
  Fold<<<kBlocks, 32>>>(runs, value, 1, 10);
  CHECK(cudaDeviceSynchronize());
  int least, greatest;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  std::printf("levels %d to %d:", least, greatest);
  for (const int priority : priorities) {
    cudaStream_t stream;
    int said = 99;
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    CHECK(cudaStreamGetPriority(stream, &said));
    Fold<<<kBlocks, 32, 0, stream>>>(runs, value, 1, 10);
    CHECK(cudaStreamSynchronize(stream));
    std::printf(" %d", said);
    if (priority == -2) CHECK(cudaStreamDestroy(stream));
  }
  CHECK(cudaMemcpy(&first, runs, 4, cudaMemcpyDeviceToHost));
  std::printf(", %u runs\n", first);
  return first == kStreams + 1 ? 0 : 1;
}
