// A program that knows nothing of tasks: rows of narrow launches in few streams, none of which is
// waited for until the row's end; each must see what the one before it left. Plain CUDA.
//
//   narrow_chain [rounds [launches]]
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/apps/support/check_runtime.h"

namespace {

constexpr unsigned kThreads = 40, kStreams = 2;

// Longer than the host takes to launch it.
__host__ __device__ uint32_t Next(uint32_t value, uint32_t step) {
  for (uint32_t i = 0; i < 300; ++i) value = value * 3 + (step ^ i);
  return value;
}

__global__ void Step(uint32_t* values, uint32_t step) {
  values[threadIdx.x] = Next(values[threadIdx.x], step);
}

struct Chain {
  Chain() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&values, kThreads * sizeof *values));
    CHECK(cudaMemset(values, 0, kThreads * sizeof *values));
    CHECK(cudaDeviceSynchronize());
  }
  ~Chain() {
    cudaFree(values);
    cudaStreamDestroy(stream);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  void Launch(uint32_t step) {
    Step<<<1, kThreads, 0, stream>>>(values, step);
    expected = Next(expected, step);
  }

  bool IsRight() const {
    uint32_t found[kThreads];
    CHECK(cudaMemcpyAsync(found, values, sizeof found, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (const uint32_t value : found) {
      if (value != expected) return false;
    }
    return true;
  }

  cudaStream_t stream = nullptr;
  uint32_t* values = nullptr;
  uint32_t expected = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const unsigned launches = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 2000;
  std::vector<Chain> chains(kStreams);
  for (int round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < launches; ++i) chains[i % kStreams].Launch(i);
    for (unsigned i = 0; i < kStreams; ++i) {
      if (chains[i].IsRight()) continue;
      std::printf("round %d, stream %u: a launch has not seen the one before it\n", round, i);
      return 1;
    }
  }
  std::printf("ok\n");
  return 0;
}
