// Parts of preempt_app.cu and of other programs beside it: kernels, the arrays on which they work, streams, and what the
// program and its test say to each other.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/preempt/kernels.h"

constexpr int kBlocks = 6000, kThreads = 32, kRounds = 400;

__device__ uint32_t all_values[2 * kBlocks];

extern "C" {

__global__ void Fold(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds) {
  FoldBlock({blockIdx, gridDim}, runs, value, tag, rounds);
}

__global__ void Where(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds, uint32_t* where) {
  WhereBlock({blockIdx, gridDim}, runs, value, tag, rounds, where);
}

__global__ void Paced(uint32_t* runs, uint32_t* value, uint32_t tag, uint32_t* where, Pace* pace) {
  PacedBlock({blockIdx, gridDim}, runs, value, tag, where, pace);
}

__global__ void FoldGlobal() {
  FoldBlock({blockIdx, gridDim}, all_values, all_values + kBlocks, 1, kRounds);
}

// Has no variant, so its launches are plain.
__global__ void Plain(uint32_t* value) { atomicAdd(value, 1u); }

// Has no variant either, and is launched for the first time while another launch is preempted.
__global__ void Holding(volatile uint32_t* flag, uint32_t* value) {
  AwaitBlock({blockIdx, gridDim}, flag, value);
}

__global__ void Meet(uint32_t* arrived) { MeetBlock({blockIdx, gridDim}, arrived); }

__global__ void FirstLaunched(uint32_t* value) { atomicAdd(value, 1u); }

}  // extern "C"

namespace {

void Say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

/// Says the text and goes on when the test has answered.
inline void SayAndWait(const char* text) {
  Say(text);
  (void)std::getchar();
}

/// The first number in device memory.
inline uint32_t FirstOf(const uint32_t* memory) {
  uint32_t first = 0;
  CHECK(cudaMemcpy(&first, memory, 4, cudaMemcpyDeviceToHost));
  return first;
}

/// Device memory for kBlocks blocks.
struct Arrays {
  uint32_t *runs, *value, *other;  // runs of each block; value of each block; memory for copies
  Arrays() {
    CHECK(cudaMalloc(&runs, 4 * kBlocks));
    CHECK(cudaMalloc(&value, 4 * kBlocks));
    CHECK(cudaMalloc(&other, 1 << 20));
    CHECK(cudaMemset(runs, 0, 4 * kBlocks));
    CHECK(cudaMemset(value, 0, 4 * kBlocks));
    CHECK(cudaMemset(other, 0, 1 << 20));
    CHECK(cudaDeviceSynchronize());
  }
  void Launch(uint32_t tag, cudaStream_t stream, int rounds = kRounds) const {
    Fold<<<dim3(kBlocks / 6, 3, 2), kThreads, 0, stream>>>(runs, value, tag, rounds);
    CHECK(cudaGetLastError());
  }
  // Checks that every block ran `times` times, and that the kernels' tags 1 ... times came in order.
  // The exit code: 0 if so.
  int Check(uint32_t times) const {
    std::vector<uint32_t> ran(kBlocks), values(kBlocks);
    CHECK(cudaMemcpy(ran.data(), runs, 4 * kBlocks, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(values.data(), value, 4 * kBlocks, cudaMemcpyDeviceToHost));
    uint32_t expected = 0;
    for (uint32_t tag = 1; tag <= times; ++tag) expected = expected * 3 + tag;
    for (int i = 0; i < kBlocks; ++i) {
      if (ran[i] == times && values[i] == expected) continue;
      std::printf("block %d ran %u times, value %u instead of %u\n", i, ran[i], values[i],
                  expected);
      return 1;
    }
    std::printf("%u kernels of %d blocks, value %u\n", times, kBlocks, expected);
    return 0;
  }
};

cudaStream_t MakeStream(const std::string& kind) {
  cudaStream_t stream = nullptr;
  if (kind == "per-thread") return cudaStreamPerThread;
  if (kind == "blocking") CHECK(cudaStreamCreate(&stream));
  if (kind == "non-blocking") CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace
