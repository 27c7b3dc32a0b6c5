// Copies and kernels on two streams that wait for each other's events. pipeline ROUNDS
#include <vector>

#include "check.h"

__global__ void Produce(uint32_t* out, uint32_t round) { out[threadIdx.x] = threadIdx.x * round; }
__global__ void Consume(const uint32_t* in, uint32_t* sum) { atomicAdd(sum, in[threadIdx.x]); }

int main(int, char** argv) {
  const int rounds = std::atoi(argv[1]);
  uint32_t *data, *sum, result;
  cudaStream_t producer, consumer;
  cudaEvent_t produced, consumed;
  Check(cudaMalloc(&data, 256 * sizeof(uint32_t)));
  Check(cudaMalloc(&sum, sizeof(uint32_t)));
  Check(cudaMemset(sum, 0, sizeof(uint32_t)));
  Check(cudaStreamCreate(&producer));
  Check(cudaStreamCreate(&consumer));
  Check(cudaEventCreate(&produced));
  Check(cudaEventCreate(&consumed));
  for (int round = 0; round < rounds; ++round) {
    Produce<<<1, 256, 0, producer>>>(data, round);
    Check(cudaEventRecord(produced, producer));
    Check(cudaStreamWaitEvent(consumer, produced));
    Consume<<<1, 256, 0, consumer>>>(data, sum);
    Check(cudaEventRecord(consumed, consumer));
    Check(cudaStreamWaitEvent(producer, consumed));
  }
  Check(cudaDeviceSynchronize());
  Check(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
  std::printf("%u\n", result);
}
