// A solo task: a task that is a launch of its own, where no MasterKernel runs. The launch has a
// block for each block of the task and no scheduler. It uses the shared memory of an MTB
// (MtbState), so that bodies find there what they find in an MTB. Device code;
// docs/masterkernel.md, "The first task".
#pragma once

#include "device/runtime/mtb.cuh"

namespace cupola::runtime {

/// Counts a block that has ended, with all that its threads wrote. Returns whether it is the last
/// block, which sees what all blocks wrote. The word is 0 before and after the launch. One thread
/// of the block calls it.
__device__ inline bool EndSoloBlock(uint32_t* blocks_ended) {
  if (gridDim.x == 1) return true;
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"  // plant: BlocksOfALaunchDoNotSeeEachOther
               : "=r"(before)
               : "l"(blocks_ended)
               : "memory");
  if (before != gridDim.x - 1) return false;  // plant: ALaunchEndsWithItsFirstBlock
  *blocks_ended = 0;  // plant: BlocksOfALaunchStayCounted
  return true;
}

/// A block of such a launch. Its first warp stands in for an MTB's scheduler, and ends at once.
template <class Bodies>
__device__ void RunSolo(const SoloParams& params) {
  constexpr uint32_t kRow = 0, kSlot = 0;
  MtbState& mtb = Mtb();
  if (threadIdx.x < kRecordWords) {
    mtb.records[kRow][threadIdx.x] =
        params.record[threadIdx.x / kChunkWords].words[threadIdx.x % kChunkWords];
  }
  if (threadIdx.x == 0) {
    mtb.warps_left[kRow] = blockDim.x / 32 - 1;
    BlockEntry& block = mtb.blocks[kSlot];
    block.first_unit = 0;
    block.meets = params.record[0].words[0] >> 24;  // TaskHeader::barrier, threads
    if (block.meets != 0) BeginBarrier(&block.meet, params.record[0].words[1] & 0xffff);
  }
  if (threadIdx.x >= 32 && threadIdx.x % 32 == 0) {
    MyWarp() = {
        .job = kRow + 2, .block = blockIdx.x, .first_thread = threadIdx.x - 32, .slot = kSlot};
  }
  __syncthreads();
  if (threadIdx.x < 32) return;
  RunWarp<Bodies>(MyWarp(), kRow);
  if (threadIdx.x % 32 != 0) return;
  FenceForMtb();  // plant: WarpsOfALaunchAreNotSeen
  if (CountDown(&mtb.warps_left[kRow]) != 1) return;  // plant: ALaunchEndsWithItsFirstWarp
  (void)LoadAcquire(&mtb.warps_left[kRow]);  // what the other warps wrote  // plant: WarpsOfALaunchDoNotSeeEachOther
  if (EndSoloBlock(params.blocks_ended)) StoreRelease(params.done, params.record[0].sequence);
}

}  // namespace cupola::runtime
