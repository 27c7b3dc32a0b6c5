// main TURNS: kernels with few and with many bytes of parameters, one behind the other in several streams; each adds a
// number to what the ones before it left, so that order and every byte count. Prints "same" or what was found.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define MUST(call)                                                           \
  do {                                                                       \
    if (const cudaError_t error = (call); error != cudaSuccess) {            \
      printf("%s: %s\n", #call, cudaGetErrorString(error));                  \
      exit(1);                                                               \
    }                                                                        \
  } while (false)

template <int kWords>
struct Words {
  unsigned words[kWords];
};

// sum * 31 + every word with its place, in the first of the block's threads' word and the last one's.
template <int kWords>
__global__ void Mix(unsigned* sums, Words<kWords> given) {
  unsigned sum = sums[threadIdx.x] * 31;
  for (int i = 0; i < kWords; ++i) sum += given.words[i] * (2 * i + 1);
  sums[threadIdx.x] = sum + threadIdx.x;
}

constexpr int kThreads = 48;

template <int kWords>
void Launch(unsigned* device, unsigned* wanted, unsigned seed, cudaStream_t stream) {
  Words<kWords> given;
  unsigned sum = 0;
  for (int i = 0; i < kWords; ++i) {
    given.words[i] = seed = seed * 1664525u + 1013904223u;
    sum += given.words[i] * (2 * i + 1);
  }
  Mix<kWords><<<1, kThreads, 0, stream>>>(device, given);
  for (int i = 0; i < kThreads; ++i) wanted[i] = wanted[i] * 31 + sum + i;
}

int main(int, char** argv) {
  const int turns = atoi(argv[1]);
  constexpr int kStreams = 3;
  unsigned* device[kStreams];
  static unsigned wanted[kStreams][kThreads], found[kThreads];
  cudaStream_t streams[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    MUST(cudaStreamCreate(&streams[i]));
    MUST(cudaMalloc(&device[i], sizeof wanted[i]));
    MUST(cudaMemset(device[i], 0, sizeof wanted[i]));
  }
  unsigned seed = 1;
  for (int turn = 0; turn < turns; ++turn) {
    seed = seed * 1664525u + 1013904223u;
    const int i = (seed >> 8) % kStreams;
    unsigned* const to = device[i];
    switch ((seed >> 16) % 8) {  // 8 bytes more each
      case 0: Launch<2>(to, wanted[i], seed, streams[i]); break;
      case 1: Launch<14>(to, wanted[i], seed, streams[i]); break;
      case 2: Launch<15>(to, wanted[i], seed, streams[i]); break;
      case 3: Launch<16>(to, wanted[i], seed, streams[i]); break;
      case 4: Launch<24>(to, wanted[i], seed, streams[i]); break;
      case 5: Launch<37>(to, wanted[i], seed, streams[i]); break;
      case 6: Launch<38>(to, wanted[i], seed, streams[i]); break;
      case 7: Launch<1>(to, wanted[i], seed, streams[i]); break;
    }
  }
  for (int i = 0; i < kStreams; ++i) {
    MUST(cudaMemcpyAsync(found, device[i], sizeof found, cudaMemcpyDeviceToHost, streams[i]));
    MUST(cudaStreamSynchronize(streams[i]));
    for (int j = 0; j < kThreads; ++j) {
      if (found[j] == wanted[i][j]) continue;
      printf("stream %d, thread %d: %u, not %u\n", i, j, found[j], wanted[i][j]);
      return 1;
    }
  }
  puts("same");
}
