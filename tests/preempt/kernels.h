// The bodies of the test programs' kernels. The programs use them as they are; hand-written variants
// use the same bodies, so that tests of the host's side do not depend on the compiler's passes.
#pragma once

#include <cstdint>

/// What a body must not read from the built-in variables, which differ in a variant.
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

/// As FoldBlock, and writes down the SM on which it ran.
__device__ inline void WhereBlock(const Block& block, uint32_t* runs, uint32_t* value, uint32_t tag,
                                  int rounds, uint32_t* where) {
  FoldBlock(block, runs, value, tag, rounds);
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) where[block.index.x] = sm;
}

/// Host memory through which the host and the blocks of a paced kernel communicate.
struct Pace {
  uint32_t open;   ///< bit n: blocks on SM n run to their end; others wait, and so hold their SM
  uint32_t begun;  ///< blocks that began
  uint32_t ended;  ///< of these, blocks that no longer hold an SM
};

/// Waits until its SM is open, then does as WhereBlock.
__device__ inline void PacedBlock(const Block& block, uint32_t* runs, uint32_t* value, uint32_t tag,
                                  uint32_t* where, Pace* pace) {
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) {
    atomicAdd_system(&pace->begun, 1u);
    while ((*static_cast<volatile uint32_t*>(&pace->open) >> (sm & 31) & 1) == 0) __nanosleep(1000);
    atomicAdd_system(&pace->ended, 1u);
  }
  __syncthreads();
  WhereBlock(block, runs, value, tag, 1, where);
}

/// When the operations of a program ran, by a clock that each of their steps advances. In device
/// memory; indexed by operation.
constexpr uint32_t kStamped = 64;  ///< operations, at most
struct Stamps {
  uint32_t clock;
  uint32_t begun[kStamped];   ///< of a launch: when its first block began; at first UINT32_MAX
  uint32_t ended[kStamped];   ///< of a launch: when its last block ended
  uint32_t blocks[kStamped];  ///< of a launch: blocks that ran
  uint32_t copied[kStamped];  ///< of a copy: the clock that it saw
};

/// Stamps its begin and its end, as a block of operation `op`.
__device__ inline void StampBlock(const Block&, Stamps* stamps, uint32_t op, int rounds) {
  if (threadIdx.x == 0) atomicMin(&stamps->begun[op], atomicAdd(&stamps->clock, 1u));
  uint32_t x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
  __syncthreads();
  if (threadIdx.x != 0) return;
  atomicAdd(&stamps->blocks[op], x == 0xFFFFFFFF ? 2u : 1u);
  atomicMax(&stamps->ended[op], atomicAdd(&stamps->clock, 1u));
}

/// Host memory through which the host and the blocks of a sliced kernel communicate.
struct Steps {
  uint32_t open;   ///< 0: block 0 waits, and so its slice does not end
  uint32_t begun;  ///< blocks that began
};

/// Counts its runs; block 0 waits until the host opens `steps`. Some threads leave before a warp
/// operation, which is why the passes make no preemptible variant of the kernel.
__device__ inline void StepBlock(const Block& block, uint32_t* runs, Steps* steps) {
  if (threadIdx.x > 16) return;
  if (threadIdx.x == 0) {
    atomicAdd_system(&steps->begun, 1u);
    while (block.index.x == 0 && *static_cast<volatile uint32_t*>(&steps->open) == 0) {
      __nanosleep(20000);
    }
  }
  const uint32_t zero = __shfl_sync(0x1FFFF, threadIdx.x, 0);
  if (threadIdx.x == 0) atomicAdd(&runs[block.index.x], 1u + zero);
}

/// Waits for all blocks of the grid: a barrier made by hand, for a grid that fits on the GPU.
__device__ inline void MeetBlock(const Block& block, uint32_t* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile uint32_t*>(arrived) < block.grid.x) {
    }
  }
  __syncthreads();
}

/// Waits until the host sets a flag, then folds.
__device__ inline void AwaitBlock(const Block& block, volatile uint32_t* flag, uint32_t* value) {
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    value[block.index.x] += 1;
  }
}
