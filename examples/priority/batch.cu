// A batch program: long kernels back to back until its standard input ends. Prints the checksum of
// its first round, which must be that of each round. batch BLOCKS STEPS
#include <vector>

#include "check.h"

__global__ void Walk(uint32_t* out, int steps) {
  const uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t x = id * 2654435761u + 1;
  for (int i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  out[id] = x;
}

int main(int, char** argv) {
  const int blocks = std::atoi(argv[1]), steps = std::atoi(argv[2]);
  const size_t count = size_t(blocks) * 128;
  uint32_t* device;
  std::vector<uint32_t> host(count);
  uint64_t first = 0;
  Check(cudaMalloc(&device, count * sizeof(uint32_t)));
  for (int round = 0; round == 0 || !InputHasEnded(); ++round) {
    Check(cudaMemset(device, 0, count * sizeof(uint32_t)));
    Walk<<<blocks, 128>>>(device, steps);
    Check(cudaMemcpy(host.data(), device, count * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    const uint64_t sum = Checksum(host.data(), count);
    if (round == 0) {
      first = sum;
      std::printf("batch %016llx\n", static_cast<unsigned long long>(first));
      std::fflush(stdout);
    }
    if (sum != first) return std::puts("rounds differ"), 1;
  }
}
