// What the examples' programs share: they stop at the first CUDA error, and print a checksum of
// their results.
#pragma once
#include <cuda_runtime.h>
#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

inline void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// FNV-1a over the bytes of `count` values.
template <typename T>
uint64_t Checksum(const T* values, size_t count) {
  uint64_t sum = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values);
  for (size_t i = 0; i < count * sizeof(T); ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
  return sum;
}

/// Whether standard input has ended, or has something to read. Does not wait.
inline bool InputHasEnded() {
  pollfd input{0, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}
