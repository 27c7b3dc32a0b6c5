// Prefix sums within warps by shuffles, a butterfly maximum, ballots, and a broadcast; then a block
// scan over the warps' totals.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kBlock = 256;
constexpr unsigned kAll = 0xffffffffu;

__global__ void ScanBlocks(const int* in, int* prefix, int* maxima, unsigned* votes) {
  __shared__ int totals[kBlock / 32];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int own = in[i];
  int value = own;
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(kAll, value, step);
    if (lane >= step) value += below;
  }
  int largest = own;
  for (int step = 16; step > 0; step /= 2)
    largest = max(largest, __shfl_xor_sync(kAll, largest, step));
  const unsigned even = __ballot_sync(kAll, own % 2 == 0);
  const int last = __shfl_sync(kAll, own, 31);
  const int next = __shfl_down_sync(kAll, own, 1);
  if (lane == 31) totals[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int total = lane < kBlock / 32 ? totals[lane] : 0;
    for (int step = 1; step < kBlock / 32; step *= 2) {
      const int below = __shfl_up_sync(kAll, total, step);
      if (lane >= step) total += below;
    }
    if (lane < kBlock / 32) totals[lane] = total;
  }
  __syncthreads();
  prefix[i] = value + (warp > 0 ? totals[warp - 1] : 0);
  maxima[i] = largest + last - next;
  if (lane == 0) votes[i / 32] = even ^ (__popc(even) << 5);
}

int main(int argc, char** argv) {
  const int blocks = SizeArgument(argc, argv, 120), n = blocks * kBlock;
  std::vector<int> in(n), prefix(n), maxima(n), expected_prefix(n), expected_maxima(n);
  std::vector<unsigned> votes(n / 32), expected_votes(n / 32);
  for (int i = 0; i < n; ++i) in[i] = static_cast<int>(Mix(i) % 4096);
  for (int first = 0; first < n; first += 32) {
    int largest = 0;
    unsigned even = 0;
    for (int lane = 0; lane < 32; ++lane) {
      largest = in[first + lane] > largest ? in[first + lane] : largest;
      if (in[first + lane] % 2 == 0) even |= 1u << lane;
    }
    for (int i = first; i < first + 32; ++i) {
      expected_prefix[i] = in[i] + (i % kBlock ? expected_prefix[i - 1] : 0);
      expected_maxima[i] = largest + in[first + 31] - in[i % 32 == 31 ? i : i + 1];
    }
    expected_votes[first / 32] = even ^ (__builtin_popcount(even) << 5);
  }

  int *device_in, *device_prefix, *device_maxima;
  unsigned* device_votes;
  CHECK(cudaMalloc(&device_in, n * sizeof(int)));
  CHECK(cudaMalloc(&device_prefix, n * sizeof(int)));
  CHECK(cudaMalloc(&device_maxima, n * sizeof(int)));
  CHECK(cudaMalloc(&device_votes, n / 32 * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  ScanBlocks<<<blocks, kBlock>>>(device_in, device_prefix, device_maxima, device_votes);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(prefix.data(), device_prefix, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(maxima.data(), device_maxima, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(votes.data(), device_votes, n / 32 * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_prefix));
  CHECK(cudaFree(device_maxima));
  CHECK(cudaFree(device_votes));

  Checksum sum;
  sum.Add(prefix);
  sum.Add(maxima);
  sum.Add(votes);
  std::printf("%d warps scanned, last prefix %d\n", n / 32, prefix[n - 1]);
  const bool correct =
      prefix == expected_prefix && maxima == expected_maxima && votes == expected_votes;
  return Report("warp_scan", correct, sum);
}
