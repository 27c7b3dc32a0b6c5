// What programs do while narrow launches are under way, one a run; what it prints must not depend
// on whether launches become tasks. Plain CUDA.
//
//   narrow_faults trap | exit | reset | capture | threads | legacy
//   narrow_faults lurk       as trap, and then calls nothing until its input ends
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"

namespace {

constexpr int kThreads = 64, kLaunches = 200;

__global__ void Add(uint32_t* values, uint32_t step) { values[threadIdx.x] += step; }
__global__ void Count(uint32_t* total) {
  if (threadIdx.x == 0) atomicAdd(total, 1u);
}
__global__ void TrapIf(bool traps) {
  if (traps) __trap();
}

struct Streams {
  explicit Streams(int count) : all(count) {
    for (cudaStream_t& stream : all) CHECK(cudaStreamCreate(&stream));
  }
  std::vector<cudaStream_t> all;
};

uint32_t* Zeroed() {
  uint32_t* values = nullptr;
  CHECK(cudaMalloc(&values, kThreads * sizeof(uint32_t)));
  CHECK(cudaMemset(values, 0, kThreads * sizeof(uint32_t)));
  CHECK(cudaDeviceSynchronize());
  return values;
}

void Print(const char* what, const uint32_t* values) {
  uint32_t found[kThreads];
  CHECK(cudaMemcpy(found, values, sizeof found, cudaMemcpyDeviceToHost));
  std::printf("%s: %u %u\n", what, found[0], found[kThreads - 1]);
}

void LaunchMany(cudaStream_t stream, uint32_t* values) {
  for (int i = 0; i < kLaunches; ++i) Add<<<1, kThreads, 0, stream>>>(values, i % 7);
}

// A launch that fails: every call behind it says so, whatever stream it is for.
void Trap(bool lurks) {
  Streams streams(3);
  uint32_t* values = Zeroed();
  for (int i = 0; i < kLaunches; ++i) {
    Add<<<1, kThreads, 0, streams.all[i % 2]>>>(values, 0);
    TrapIf<<<1, 32, 0, streams.all[2]>>>(i == kLaunches - 1);
  }
  if (lurks) {
    std::puts("launched");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  }
  std::printf("stream: %s\n", cudaGetErrorName(cudaStreamSynchronize(streams.all[2])));
  std::printf("device: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("malloc: %s\n", cudaGetErrorName(cudaMalloc(&values, 4)));
}

void Reset() {
  for (int round = 0; round < 2; ++round) {
    Streams streams(2);
    uint32_t* values = Zeroed();
    LaunchMany(streams.all[round], values);
    CHECK(cudaStreamSynchronize(streams.all[round]));
    Print("before the reset", values);
    LaunchMany(streams.all[round], values);
    CHECK(cudaDeviceReset());
  }
}

// One stream is captured while launches go on in another.
void Capture() {
  Streams streams(2);
  uint32_t *values = Zeroed(), *captured = Zeroed();
  LaunchMany(streams.all[0], values);
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(streams.all[1], cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 10; ++i) Add<<<1, kThreads, 0, streams.all[1]>>>(captured, 1);
  std::thread([&] { LaunchMany(streams.all[0], values); }).join();
  CHECK(cudaStreamEndCapture(streams.all[1], &graph));
  LaunchMany(streams.all[0], values);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  LaunchMany(streams.all[1], captured);
  CHECK(cudaGraphLaunch(exec, streams.all[1]));
  LaunchMany(streams.all[1], captured);
  CHECK(cudaDeviceSynchronize());
  Print("launched", values);
  Print("captured", captured);
}

// Threads share streams.
void Threads() {
  Streams streams(3);
  uint32_t* total = Zeroed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kLaunches; ++i) Count<<<1, 32, 0, streams.all[(i + t) % 3]>>>(total);
      CHECK(cudaStreamSynchronize(streams.all[t % 3]));
      void* memory = nullptr;
      CHECK(cudaMalloc(&memory, 1 << 16));
      for (int i = 0; i < kLaunches; ++i) Count<<<1, 32, 0, streams.all[(i + t) % 3]>>>(total);
      CHECK(cudaFree(memory));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cudaDeviceSynchronize());
  Print("counted", total);
}

// The default stream, first alone, then beside one that waits for it and for which it waits.
void Legacy() {
  uint32_t* values = Zeroed();
  LaunchMany(nullptr, values);
  Print("default stream", values);
  Streams streams(2);
  for (int i = 0; i < 40; ++i) {
    LaunchMany(streams.all[i % 2], values);
    Add<<<1, kThreads>>>(values, 1);
    CHECK(cudaMemsetAsync(values + kThreads / 2, i, 4, nullptr));
  }
  Print("by turns", values);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "trap" || what == "lurk") {
    Trap(what == "lurk");
  } else if (what == "exit") {
    Streams streams(2);
    LaunchMany(streams.all[0], Zeroed());
    std::printf("leaves\n");
    std::exit(3);
  } else if (what == "reset") {
    Reset();
  } else if (what == "capture") {
    Capture();
  } else if (what == "threads") {
    Threads();
  } else if (what == "legacy") {
    Legacy();
  } else {
    std::printf("narrow_faults trap|exit|reset|capture|threads|legacy|lurk\n");
    return 2;
  }
  return 0;
}
