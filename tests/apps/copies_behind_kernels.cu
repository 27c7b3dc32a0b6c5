// Kernels of a few blocks that depend on each other, each pair followed by a copy to the host on the legacy default
// stream, which waits inside the driver. The kernels take some milliseconds, far longer than their work.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kBlocks = 2, kThreads = 256, kCount = kBlocks * kThreads;
constexpr unsigned kTurns = 12;
constexpr unsigned long long kBlockNs = 4000000;

__host__ __device__ unsigned First(const unsigned* state, int i, unsigned turn) {
  return state[i] * 2654435761u + turn + state[(i * 3 + 1) % kCount];
}
__host__ __device__ unsigned Second(const unsigned* state, const unsigned* first, int i) {
  return (state[(i * 7 + 3) % kCount] ^ first[(i * 13 + 5) % kCount]) + first[(i * 5 + 300) % kCount];
}

__device__ void Linger() {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begun < kBlockNs);
}

__global__ void MakeFirst(unsigned* __restrict__ first, const unsigned* __restrict__ state, unsigned turn) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = First(state, i, turn);
  Linger();
  first[i] = value;
}
__global__ void MakeState(unsigned* __restrict__ next, const unsigned* __restrict__ state,
                          const unsigned* __restrict__ first) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = Second(state, first, i);
  Linger();
  next[i] = value;
}

int main() {
  constexpr size_t kBytes = kCount * sizeof(unsigned);
  unsigned *first, *states[2];
  CHECK(cudaMalloc(&first, kBytes));
  for (unsigned*& state : states) CHECK(cudaMalloc(&state, kBytes));
  std::vector<unsigned> state(kCount), expected(kCount), got(kCount);
  for (int i = 0; i < kCount; ++i) state[i] = Mix(i);
  CHECK(cudaMemcpy(states[0], state.data(), kBytes, cudaMemcpyHostToDevice));
  bool correct = true;
  Checksum sum;
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    MakeFirst<<<kBlocks, kThreads>>>(first, states[turn % 2], turn);
    MakeState<<<kBlocks, kThreads>>>(states[1 - turn % 2], states[turn % 2], first);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), states[1 - turn % 2], kBytes, cudaMemcpyDeviceToHost));
    std::vector<unsigned> of_turn(kCount);
    for (int i = 0; i < kCount; ++i) of_turn[i] = First(state.data(), i, turn);
    for (int i = 0; i < kCount; ++i) expected[i] = Second(state.data(), of_turn.data(), i);
    correct = correct && got == expected;
    state = expected;
    sum.Add(got);
  }
  return Report("copies_behind_kernels", correct, sum);
}
