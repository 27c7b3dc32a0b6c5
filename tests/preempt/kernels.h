// The bodies of the test programs' kernels, for the program as it is and for the hand-written
// variants, which give host tests kernels that do not depend on the passes.
#pragma once

#include <cstdint>

/// Everything that distinguishes a block of the program from one of a variant.
struct Block {
  uint3 index;
  dim3 grid;
};

/// Counts each block's runs, and folds the order of kernels into `value`: x -> 3 x + tag.
__device__ inline void FoldBlock(const Block& block, uint32_t* runs, uint32_t* value, uint32_t tag,
                                 int rounds) {
  const uint32_t linear =
      (block.index.z * block.grid.y + block.index.y) * block.grid.x + block.index.x;
  uint32_t x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
  if (threadIdx.x == 0) {
    atomicAdd(&runs[linear], 1u);
    value[linear] = value[linear] * 3 + tag + (x == 0xFFFFFFFF ? 1 : 0);
  }
}

/// Folds, and notes the SM that it ran on.
__device__ inline void WhereBlock(const Block& block, uint32_t* runs, uint32_t* value, uint32_t tag,
                                  int rounds, uint32_t* where) {
  FoldBlock(block, runs, value, tag, rounds);
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) where[block.index.x] = sm;
}

/// Waits until the host sets a flag, then folds.
__device__ inline void AwaitBlock(const Block& block, volatile uint32_t* flag, uint32_t* value) {
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    value[block.index.x] += 1;
  }
}
