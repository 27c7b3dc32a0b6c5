// Blocks with 96 KB of dynamic shared memory: more than the 48 KB that a launch may ask for without
// cudaFuncSetAttribute, so a launch before the opt-in must be refused.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kWords = 24 * 1024;

// Each block reverses its segment and adds up the words at the permuted places on the way.
__global__ void ReverseSegments(const unsigned* in, unsigned* out, unsigned* sums) {
  extern __shared__ unsigned segment[];
  __shared__ unsigned total;
  if (threadIdx.x == 0) total = 0;
  const size_t base = static_cast<size_t>(blockIdx.x) * kWords;
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) segment[i] = in[base + i];
  __syncthreads();
  unsigned own = 0;
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) {
    out[base + i] = segment[kWords - 1 - i];
    own += segment[(i * 37) % kWords] * (i % 3);
  }
  atomicAdd(&total, own);
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

int main(int argc, char** argv) {
  const int blocks = SizeArgument(argc, argv, 3);
  const size_t words = static_cast<size_t>(blocks) * kWords, bytes = words * sizeof(unsigned);
  std::vector<unsigned> in(words), out(words), sums(blocks);
  for (size_t i = 0; i < words; ++i) in[i] = Mix(i);
  unsigned *device_in, *device_out, *device_sums;
  CHECK(cudaMalloc(&device_in, bytes));
  CHECK(cudaMalloc(&device_out, bytes));
  CHECK(cudaMalloc(&device_sums, blocks * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_in, in.data(), bytes, cudaMemcpyHostToDevice));

  const int shared_bytes = kWords * sizeof(unsigned);
  ReverseSegments<<<blocks, 512, shared_bytes>>>(device_in, device_out, device_sums);
  const bool refused = cudaGetLastError() == cudaErrorInvalidValue;
  CHECK(cudaFuncSetAttribute(ReverseSegments, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             shared_bytes));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, ReverseSegments));
  int resident = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, ReverseSegments, 512,
                                                      shared_bytes));
  ReverseSegments<<<blocks, 512, shared_bytes>>>(device_in, device_out, device_sums);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(sums.data(), device_sums, blocks * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  CHECK(cudaFree(device_sums));

  bool correct = refused && attributes.maxDynamicSharedSizeBytes == shared_bytes && resident > 0;
  for (int block = 0; block < blocks; ++block) {
    const unsigned* segment = in.data() + static_cast<size_t>(block) * kWords;
    unsigned total = 0;
    for (int i = 0; i < kWords; ++i) {
      total += segment[(i * 37) % kWords] * (i % 3);
      correct = correct && out[static_cast<size_t>(block) * kWords + i] == segment[kWords - 1 - i];
    }
    correct = correct && total == sums[block];
  }
  Checksum sum;
  sum.Add(out);
  sum.Add(sums);
  std::printf("%d segments of %d bytes; without the opt-in: %s\n", blocks, shared_bytes,
              refused ? "refused" : "accepted");
  return Report("dynamic_shared", correct, sum);
}
