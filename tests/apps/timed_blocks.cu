// Blocks that take a time of their own, whatever the machine does beside: 1 to 5 units, so that they
// do not end together. timed_blocks [BLOCKS [UNIT_US [LAUNCHES]]]
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__device__ unsigned long long NowNs() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void TimedBlocks(unsigned* out, unsigned unit_us) {
  __shared__ unsigned room[10 * 1024];  // five blocks on an SM
  const unsigned long long until = NowNs() + (1 + blockIdx.x % 5) * unit_us * 1000ull;
  while (NowNs() < until) __nanosleep(10000);
  room[threadIdx.x] = blockIdx.x + threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] += room[blockDim.x - 1];
}

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::atoi(argv[1]) : 20;
  const int unit_us = argc > 2 ? std::atoi(argv[2]) : 10;
  const int launches = argc > 3 ? std::atoi(argv[3]) : 3;
  unsigned* device;
  CHECK(cudaMalloc(&device, blocks * sizeof(unsigned)));
  CHECK(cudaMemset(device, 0, blocks * sizeof(unsigned)));
  for (int i = 0; i < launches; ++i) {
    TimedBlocks<<<blocks, 32>>>(device, unit_us);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<unsigned> out(blocks), expected(blocks);
  CHECK(cudaMemcpy(out.data(), device, blocks * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  for (int i = 0; i < blocks; ++i) expected[i] = launches * (i + 31);
  Checksum sum;
  sum.Add(out);
  return Report("timed_blocks", out == expected, sum);
}
