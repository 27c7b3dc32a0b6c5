// A program with a kernel that has no preemptible variant, only a sliced one. sliced_app [BLOCKS]:
// "ready" when it has launched something; then commands: "go 0" launches the kernel, whose first
// block holds ("kernel launched"); "sum 0" launches one that holds nothing; "begun N" says "reached"
// when so many blocks of the first began; "count 0" how many did; "open 0" lets its first block go;
// "end 0" waits for the kernel and says what its blocks did.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/preempt/kernels.h"

__device__ uint32_t all_values[1];  // that the hand-written variants know

extern "C" {

__global__ void Step(uint32_t* runs, Steps* steps) { StepBlock({blockIdx, gridDim}, runs, steps); }

// The same without what others must do first; the passes make its sliced variant.
__global__ void Sum(uint32_t* runs) {
  if (threadIdx.x > 16) return;
  const uint32_t one = __shfl_sync(0x1FFFF, threadIdx.x + 1, 0);
  if (threadIdx.x == 0) atomicAdd(&runs[blockIdx.x], one);
}

// Has no variant.
__global__ void First(uint32_t* value) { *value = all_values[0]; }

}  // extern "C"

namespace {

void Say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

int Check(const uint32_t* device, size_t blocks) {
  std::vector<uint32_t> runs(blocks);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(runs.data(), device, 4 * blocks, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < blocks; ++i) {
    if (runs[i] != 1) return std::printf("block %zu ran %u times\n", i, runs[i]), 1;
  }
  std::printf("%zu blocks ran once\n", blocks);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned blocks = argc > 1 ? static_cast<unsigned>(std::stoul(argv[1])) : 2000;
  uint32_t* runs;
  void* memory;
  CHECK(cudaMalloc(&runs, 4 * blocks));
  CHECK(cudaMallocHost(&memory, sizeof(Steps)));
  std::memset(memory, 0, sizeof(Steps));
  const auto steps = static_cast<volatile Steps*>(memory);
  First<<<1, 1>>>(runs);
  CHECK(cudaMemset(runs, 0, 4 * blocks));
  CHECK(cudaDeviceSynchronize());
  Say("ready");
  char command[16];
  unsigned number;
  bool has_gone = false;
  while (std::scanf("%15s %u", command, &number) == 2 && std::strcmp(command, "end") != 0) {
    const std::string word = command;
    if (word == "go") {
      Step<<<blocks, 32>>>(runs, static_cast<Steps*>(memory));
      CHECK(cudaGetLastError());
      has_gone = true;
      Say("kernel launched");
    }
    if (word == "sum") {
      Sum<<<blocks, 32>>>(runs);
      CHECK(cudaGetLastError());
      has_gone = true;
    }
    while (word == "begun" && steps->begun < number) usleep(100);
    if (word == "begun") Say("reached " + std::to_string(number));
    if (word == "count") Say("count " + std::to_string(steps->begun));
    if (word == "open") steps->open = 1;
  }
  return has_gone ? Check(runs, blocks) : 0;
}
