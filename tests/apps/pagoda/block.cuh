// What a task's body gets to see of where it runs: a plain kernel, a block of a fused kernel or a
// task of somebody's. Bodies are written over it once. Includes nothing of Cupola.
#pragma once

#include <cstdint>

namespace pagoda {

/// Thread `thread` of `threads`; of all blocks where a task has several, which only tasks without
/// barriers have. `shared`: as much as Kind::SharedBytes says, at a multiple of 16.
template <class Sync>
struct Block {
  unsigned thread, threads;
  char* shared;
  Sync sync;
};

struct SyncThreads {
  __device__ void operator()() const { __syncthreads(); }
};

/// Products and sums that no compiler contracts, so that all forms and the CPU give equal bits.
__host__ __device__ inline float Mul(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

__host__ __device__ inline float Add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

/// One rounding on the GPU; two on the CPU, where one would be a call of a function.
__host__ __device__ inline float Fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/// By all threads of the block; both at multiples of 16, as is the room behind `bytes`. Four loads
/// are under way at a time, since one side may be memory of the host.
template <class AnyBlock>
__device__ void CopyBytes(const AnyBlock& block, void* to, const void* from, unsigned bytes) {
  auto* const target = static_cast<uint4*>(to);
  const auto* const source = static_cast<const uint4*>(from);
  const unsigned pieces = (bytes + 15) / 16, step = block.threads;
  unsigned i = block.thread;
  for (; i + 3 * step < pieces; i += 4 * step) {
    const uint4 a = source[i], b = source[i + step], c = source[i + 2 * step],
                d = source[i + 3 * step];
    target[i] = a;
    target[i + step] = b;
    target[i + 2 * step] = c;
    target[i + 3 * step] = d;
  }
  for (; i < pieces; i += step) target[i] = source[i];
}

}  // namespace pagoda
