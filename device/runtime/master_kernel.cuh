// The MasterKernel: a resident kernel that runs narrow tasks as they come, without a launch for
// each. Pagoda, section 4.1; docs/narrow-tasks.md says what is done otherwise and why.
//
// An MTB is a scheduler warp, which pulls records from the column of the same number and hands them
// to executor warps, and the executor warps, which sleep at a barrier each until they are handed
// one. Device code of one MTB; programs call nothing here.
#pragma once

#include "device/runtime/mtb.cuh"
#include "device/runtime/task_leaving.cuh"

namespace cupola::runtime {

/// The task that waited for one which has ended starts at once, if there are executors for it; else
/// it is left to the scheduler. It needs no slot (Scheduler::Follow). What the one before it wrote
/// is seen by it: lane 0 has seen all its warps end.
__device__ inline void StartFollower(uint32_t row, bool is_crowded) {
  const TaskHeader& header = Header(row);
  const uint32_t warps = Warps(header) * header.blocks;
  if (!is_crowded && HandWarps(row, kNoSlot, {}, warps, warps) != 0) return;
  if (threadIdx.x % 32 == 0) MarkBits(&Mtb().released[row / 32], 1u << (row % 32));
}

/// Behind the body: what the block had is given back by its last warp; the last of the task lets
/// its follower start and tells the host. All lanes call it. One fence is before all that others go
/// by.
__device__ inline void FinishWarp(const MasterParams& params, WarpEntry& warp, uint32_t row) {
  MtbState& mtb = Mtb();
  const bool is_first = threadIdx.x % 32 == 0;
  uint32_t sequence = 0, follower = 0, is_crowded = 0;
  bool is_last = false;
  if (is_first) {
    const uint32_t slot = warp.slot;
    sequence = mtb.sequence[row];
    FenceForMtb();  // behind all reads of what the scheduler may write next
    if (slot != kNoSlot && CountDown(&mtb.blocks[slot].warps_left) == 1) {
      FenceForMtb();
      MarkBits(&mtb.ended_blocks, 1u << slot);
    }
    const uint32_t before = CountDown(&mtb.warps_left[row]);
    is_last = (before & kCountMask) == 1;
    if (is_last) {
      follower = before >> kFollowerShift;
      // With acquire: what the other warps wrote, and what the scheduler did.
      (void)LoadAcquire(&mtb.warps_left[row]);
      is_crowded = LoadAcquire(&mtb.crowded);
    }
  }
  follower = __shfl_sync(kAllLanes, follower, 0);
  if (follower != 0) {
    __syncwarp();  // what lane 0 has seen to end has ended for those that hand out what follows
    StartFollower(follower - 1, __shfl_sync(kAllLanes, is_crowded, 0) != 0);
  }
  if (!is_first) return;
  if (is_last) {
    StoreRelease(&params.done[blockIdx.x * kTaskRows + row], sequence);
    Count(&mtb.ended, 1);
  }
  StoreShared(&warp.job, kNoJob);
}

/// An executor warp: runs what it is handed. `Bodies::Run(body, arguments)` is called by the
/// threads of the block only.
template <class Bodies>
__device__ void RunExecutor(const MasterParams& params) {
  const uint32_t lane = threadIdx.x % 32;
  MtbState& mtb = Mtb();
  WarpEntry& warp = MyWarp();
  for (uint32_t parity = 0;; parity ^= 1) {
    AwaitWake(threadIdx.x / 32 - 1, parity);
    const uint32_t job = warp.job;
    if (job == kQuitJob) return;
    const TaskHeader& header = MyHeader();
    if (warp.first_thread + lane < header.threads) {
      Bodies::Run(header.body, reinterpret_cast<const char*>(mtb.records[job - 2] + 4));
      if (header.barrier == kMeets) MeetBlock(warp.slot, false);
    }
    __syncwarp();
    FinishWarp(params, warp, job - 2);
    __syncwarp();
  }
}

/// A block of the MasterKernel: a scheduler warp, and executors, kMostExecutors of them at most.
template <class Bodies>
__device__ void RunMtb(const MasterParams& params) {
  MtbState& mtb = Mtb();
  if (threadIdx.x < blockDim.x / 32 - 1) {
    mtb.warps[threadIdx.x].job = kNoJob;
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(&mtb.wake[threadIdx.x]))
        : "memory");
  }
  for (uint32_t row = threadIdx.x; row < kTaskRows; row += blockDim.x) {
    mtb.sequence[row] = mtb.warps_left[row] = mtb.begun[row] = 0;
  }
  if (threadIdx.x == 0) {
    mtb.released[0] = mtb.released[1] = mtb.crowded = mtb.ended_blocks = 0;
    mtb.room = {~0ull, ~0u};
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    Scheduler(params, Begin(params)).Run();
  } else {
    RunExecutor<Bodies>(params);
  }
}

}  // namespace cupola::runtime
