// main FORM TURNS: narrow launches, each waited for by cudaDeviceSynchronize, which must wait for all that was given to
// the device. Prints "same", or what was not there behind a wait.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define MUST(call)                                                           \
  do {                                                                       \
    if (const cudaError_t error = (call); error != cudaSuccess) {            \
      printf("%s: %s\n", #call, cudaGetErrorString(error));                  \
      exit(1);                                                               \
    }                                                                        \
  } while (false)

__global__ void Set(volatile int* word, int value) {
  if (threadIdx.x == 0) *word = value;
}

// Takes a while, and is too wide to be a task.
__global__ void SetLate(volatile int* word, int value, int turns, float* scratch) {
  float x = threadIdx.x;
  for (int i = 0; i < turns; ++i) x = x * 0.5f + 1.0f;
  scratch[blockIdx.x * blockDim.x + threadIdx.x] = x;
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *word = value;
}

__global__ void Say(int value) {
  if (threadIdx.x == 0) printf("device %d\n", value);
}

int main(int argc, char** argv) {
  const char* const form = argv[1];
  const int turns = atoi(argv[2]), late_turns = argc > 3 ? atoi(argv[3]) : 2000;
  volatile int* word = nullptr;
  float* scratch = nullptr;
  constexpr int kBlocks = 48, kThreads = 128;
  MUST(cudaHostAlloc(const_cast<int**>(&word), 4 * sizeof(int), cudaHostAllocMapped));
  MUST(cudaMalloc(&scratch, kBlocks * kThreads * sizeof(float)));
  for (int i = 0; i < 4; ++i) word[i] = 0;
  cudaStream_t narrow = nullptr, free_one = nullptr, free_with_tasks = nullptr;
  if (strcmp(form, "beside") == 0) {
    MUST(cudaStreamCreate(&narrow));
    MUST(cudaStreamCreateWithFlags(&free_one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&free_with_tasks, cudaStreamNonBlocking));
  }
  for (int turn = 1; turn <= turns; ++turn) {
    int* const words = const_cast<int*>(word);
    if (strcmp(form, "print") == 0) {
      Say<<<1, 32>>>(turn);
      MUST(cudaDeviceSynchronize());
      printf("host %d\n", turn);
      continue;
    }
    Set<<<1, 64, 0, narrow>>>(words, turn);
    int late = 0;
    if (narrow != nullptr) {
      Set<<<1, 32, 0, free_with_tasks>>>(words + 1, turn);
      // In streams that nobody else waits for; the second has had tasks.
      if (turn % 8 == 5) late = 2;
      if (turn % 8 == 7) late = 3;
    }
    if (late != 0) {
      const cudaStream_t beside = late == 2 ? free_one : free_with_tasks;
      SetLate<<<kBlocks, kThreads, 0, beside>>>(words + late, turn, late_turns, scratch);
    }
    MUST(cudaDeviceSynchronize());
    if (word[0] != turn || (narrow != nullptr && word[1] != turn) || (late != 0 && word[late] != turn)) {
      printf("turn %d: %d %d, late %d: %d\n", turn, word[0], word[1], late, word[late]);
      return 1;
    }
  }
  puts("same");
}
