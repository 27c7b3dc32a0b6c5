// Many small kernels on several streams, as a program would have that nobody wrote for Cupola.
// chain ROUNDS
#include <vector>

#include "check.h"

__global__ void Step(uint32_t* values, uint32_t round) {
  const uint32_t i = threadIdx.x;
  values[i] = values[i] * 1664525u + round + i;
}

int main(int, char** argv) {
  constexpr int kStreams = 4, kThreads = 64;
  const int rounds = std::atoi(argv[1]);
  cudaStream_t streams[kStreams];
  uint32_t* values;
  std::vector<uint32_t> host(kStreams * kThreads);
  Check(cudaMalloc(&values, host.size() * sizeof(uint32_t)));
  Check(cudaMemset(values, 0, host.size() * sizeof(uint32_t)));
  for (cudaStream_t& stream : streams)
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Check(cudaDeviceSynchronize());
  for (int round = 0; round < rounds; ++round) {
    for (int s = 0; s < kStreams; ++s)
      Step<<<1, kThreads, 0, streams[s]>>>(values + s * kThreads, round);
  }
  Check(cudaDeviceSynchronize());
  Check(cudaMemcpy(host.data(), values, host.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  std::printf("%d launches, %016llx\n", kStreams * rounds,
              static_cast<unsigned long long>(Checksum(host.data(), host.size())));
}
