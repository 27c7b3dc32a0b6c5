// Reproducible pseudo-random inputs, the same bits on the host and on the device.
#pragma once

#include <cmath>
#include <cstdint>

/// A well-mixed function of the index and a seed.
__host__ __device__ inline uint32_t MixIndex(long index, uint32_t seed) {
  uint32_t x = static_cast<uint32_t>(index) + 0x9e3779b9u * seed;
  x ^= static_cast<uint32_t>(static_cast<uint64_t>(index) >> 32) * 0x85ebca6bu;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// Uniform in [low, high); one fused operation, so that host and device agree in every bit.
__host__ __device__ inline float Noise(long index, uint32_t seed, float low, float high) {
  const float unit = static_cast<float>(MixIndex(index, seed) >> 8) * (1.0f / 16777216.0f);
  return fmaf(high - low, unit, low);
}

/// Fills `out` with Noise(0..n). Launch with any grid.
static __global__ void FillNoise(float* out, long n, uint32_t seed, float low, float high) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    out[i] = Noise(i, seed, low, high);
  }
}

/// A grid for filling n values with 256 threads a block.
inline unsigned FillBlocks(long n) {
  const long blocks = (n + 255) / 256;
  return static_cast<unsigned>(blocks < 4096 ? blocks : 4096);
}
