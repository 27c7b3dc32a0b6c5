// Two kernels in which some threads of a block return before a barrier that the others still use:
// a tree sum whose last block is only partly filled, and a count in which lanes in the middle of
// warps leave. Exited threads do not count at __syncthreads.
#include <numeric>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kBlock = 256;

__global__ void SumBlocks(const unsigned* values, unsigned* sums, int n) {
  __shared__ unsigned partial[kBlock];
  const int first = blockIdx.x * kBlock;
  const int i = first + threadIdx.x;
  if (i >= n) return;
  const int live = min(n - first, kBlock);
  partial[threadIdx.x] = values[i];
  __syncthreads();
  for (int step = kBlock / 2; step > 0; step /= 2) {
    if (threadIdx.x < step && threadIdx.x + step < live)
      partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

__global__ void CountOdd(const unsigned* values, unsigned* counts, int n) {
  __shared__ unsigned count, leader;
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (threadIdx.x == 0) {
    count = 0;
    leader = kBlock;
  }
  __syncthreads();
  if (i >= n || values[i] % 2 == 0) return;
  atomicAdd(&count, 1u);
  atomicMin(&leader, threadIdx.x);
  __syncthreads();
  if (threadIdx.x == leader) counts[blockIdx.x] = count;
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 50021);
  const int blocks = (n + kBlock - 1) / kBlock;
  std::vector<unsigned> values(n), sums(blocks), counts(blocks);
  std::vector<unsigned> expected_sums(blocks), expected_counts(blocks);
  for (int i = 0; i < n; ++i) {
    values[i] = Mix(i);
    expected_sums[i / kBlock] += values[i];
    expected_counts[i / kBlock] += values[i] % 2;
  }

  unsigned *device_values, *device_sums, *device_counts;
  CHECK(cudaMalloc(&device_values, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_sums, blocks * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_counts, blocks * sizeof(unsigned)));
  CHECK(cudaMemset(device_counts, 0, blocks * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_values, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  SumBlocks<<<blocks, kBlock>>>(device_values, device_sums, n);
  CHECK(cudaGetLastError());
  CountOdd<<<blocks, kBlock>>>(device_values, device_counts, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(sums.data(), device_sums, blocks * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(counts.data(), device_counts, blocks * sizeof(unsigned),
                   cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_sums));
  CHECK(cudaFree(device_counts));

  Checksum sum;
  sum.Add(sums);
  sum.Add(counts);
  std::printf("sum %u, %u odd values in %d blocks\n",
              std::accumulate(sums.begin(), sums.end(), 0u),
              std::accumulate(counts.begin(), counts.end(), 0u), blocks);
  return Report("reduce_early_return", sums == expected_sums && counts == expected_counts, sum);
}
