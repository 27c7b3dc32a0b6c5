// Kernels of three modules, which three sources are that know nothing of each other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

constexpr uint32_t kThreads = 64;

/// One narrow launch of the first module: each value becomes 3 * value + tag.
void LaunchFirst(cudaStream_t stream, uint32_t* values, uint32_t tag);
/// One of the second module, whose kernel needs more than 32 registers: 5 * value + what came of the tag
/// (TurnsOf).
void LaunchSecond(cudaStream_t stream, uint32_t* values, uint32_t tag);
/// One of the third, whose kernel needs more than 64: 7 * value + what came of the tag. Now and then
/// in a block of more warps than run tasks of such kernels.
void LaunchThird(cudaStream_t stream, uint32_t* values, uint32_t tag);

constexpr uint32_t kWordsOfSecond = 40, kWordsOfThird = 80;

/// What those kernels make of their tags, with so many words alive at once.
template <uint32_t kWords>
__host__ __device__ inline uint32_t TurnsOf(uint32_t tag, int rounds) {
  uint32_t words[kWords];
  for (uint32_t i = 0; i < kWords; ++i) words[i] = tag * (2 * i + 1);
  for (int round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < kWords; ++i) {
      words[i] = words[i] * 1664525u + words[(i + 1) % kWords];
    }
  }
  uint32_t sum = 0;
  for (uint32_t i = 0; i < kWords; ++i) sum ^= words[i];
  return sum;
}
