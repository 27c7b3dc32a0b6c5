// A histogram of bytes: each block counts with atomics in shared memory, then adds its counts to
// the result with atomics in global memory.
#include <algorithm>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kBins = 256;

__global__ void Histogram(const unsigned char* data, int n, unsigned* bins) {
  __shared__ unsigned local[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) local[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) atomicAdd(&bins[bin], local[bin]);
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 200003);
  std::vector<unsigned char> data(n);
  std::vector<unsigned> bins(kBins), expected(kBins);
  for (int i = 0; i < n; ++i) {
    const uint32_t x = Mix(i);
    data[i] = static_cast<unsigned char>(((x & 0xff) * ((x >> 8) & 0xff)) >> 8);
    ++expected[data[i]];
  }

  unsigned char* device_data;
  unsigned* device_bins;
  CHECK(cudaMalloc(&device_data, n));
  CHECK(cudaMalloc(&device_bins, kBins * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_data, data.data(), n, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
  Histogram<<<std::min(12 + n / (1 << 20), 1024), 192>>>(device_data, n, device_bins);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(bins.data(), device_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_data));
  CHECK(cudaFree(device_bins));

  Checksum sum;
  sum.Add(bins);
  const auto top = std::max_element(bins.begin(), bins.end());
  std::printf("%d bytes, the most frequent is %d with %u\n", n,
              static_cast<int>(top - bins.begin()), *top);
  return Report("histogram", bins == expected, sum);
}
