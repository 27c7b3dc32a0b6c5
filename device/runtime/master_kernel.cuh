// The MasterKernel: a resident kernel that runs narrow tasks as they come, without a launch for
// each. Pagoda, section 4.1; docs/narrow-tasks.md says what is done otherwise and why.
//
// An MTB is a scheduler warp, which pulls records from the column of the same number and hands them
// to executor warps, and the executor warps, which sleep at a barrier each until they are handed
// one. Device code of one MTB; programs call nothing here.
#pragma once

#include "device/runtime/mtb.cuh"
#include "device/runtime/task_leaving.cuh"
#include "device/runtime/task_room.cuh"

namespace cupola::runtime {

/// Leaves a follower to the scheduler.
__device__ inline void LeaveFollower(uint32_t row) {
  if (threadIdx.x % 32 == 0) MarkBits(&Mtb().released[row / 32], 1u << (row % 32));
}

/// The executors that were taken for a follower start it; where others wait for executors they are
/// given back, and it is left to the scheduler. Whether it was started.
__device__ inline bool StartWith(uint32_t executors, uint32_t row, bool is_crowded) {
  if (!is_crowded) {
    Wake(executors);
    return true;
  }
  GiveBackExecutors(executors);
  FenceForMtb();
  __syncwarp();
  LeaveFollower(row);
  return false;
}

/// The task that waited for one which has ended starts at once, if there are executors for it; else
/// it is left to the scheduler, or to who makes executors ready for it just now. It needs no slot
/// (Scheduler::Follow). What the one before it wrote is seen by it: lane 0 has seen all its warps
/// end. Whether it was started.
__device__ inline bool StartFollower(uint32_t row, bool is_crowded) {
  uint32_t ready = kNothingReady;
  if (threadIdx.x % 32 == 0) {
    uint32_t* const word = &Mtb().ready[row];
    ready = LoadAcquire(word);
    if (ready == kNothingReady || ready == kMakingReady) ready = Exchange(word, kStarts);
  }
  ready = __shfl_sync(kAllLanes, ready, 0);
  __syncwarp();  // what lane 0 has seen to end has ended for those that hand out what follows
  if (ready == kMakingReady) return false;
  if (ready != kNothingReady) return StartWith(ready, row, is_crowded);
  const TaskHeader& header = Header(row);
  const uint32_t warps = Warps(header) * header.blocks;
  if (!is_crowded && HandWarps(row, kNoSlot, {}, warps, warps) != 0) return true;
  LeaveFollower(row);
  return false;
}

/// While a task runs that this warp has started, takes executors for that one's own follower, if it
/// has one and a quarter of them stay free for others: to start it then is to wake them. Before
/// `done` of the warp's task is written, so before the host writes the follower's row again.
__device__ inline void MakeReady(uint32_t row_before) {
  const bool is_first = threadIdx.x % 32 == 0;
  uint32_t follower = 0;
  if (is_first) {
    follower = LoadAcquire(&Mtb().warps_left[row_before]) >> kFollowerShift;
    if (follower != 0 &&
        CompareAndSwap(&Mtb().ready[follower - 1], kNothingReady, kMakingReady) != kNothingReady) {
      follower = 0;  // it has been started
    }
  }
  follower = __shfl_sync(kAllLanes, follower, 0);
  __syncwarp();
  if (follower == 0) return;
  const uint32_t row = follower - 1, executors = blockDim.x / 32 - 1;
  const TaskHeader& header = Header(row);
  const uint32_t warps = Warps(header) * header.blocks;
  const uint32_t taken = TakeExecutors(row, kNoSlot, {}, warps, warps, executors / 4);
  uint32_t before = kMakingReady, is_crowded = 0;
  if (is_first) {
    FenceForMtb();  // who starts it sees who was taken, and the scheduler what was written
    before = CompareAndSwap(&Mtb().ready[row], kMakingReady, taken);
    is_crowded = taken == 0 ? 1 : LoadAcquire(&Mtb().crowded);
  }
  if (__shfl_sync(kAllLanes, before, 0) != kStarts) return;
  // The one before it has ended meanwhile, whose last warp has left the start to this one.
  __syncwarp();  // what lane 0 has seen has ended for all lanes
  StartWith(taken, row, __shfl_sync(kAllLanes, is_crowded, 0) != 0);
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
    is_crowded = __shfl_sync(kAllLanes, is_crowded, 0);
    if (StartFollower(follower - 1, is_crowded != 0)) MakeReady(follower - 1);
  }
  if (!is_first) return;
  if (is_last) {
    StoreRelease(&params.done[blockIdx.x * kTaskRows + row], sequence);
    Count(&mtb.ended, 1);
  }
  StoreShared(&warp.job, kNoJob);
}

/// An executor warp: runs what it is handed.
template <class Bodies>
__device__ void RunExecutor(const MasterParams& params) {
  WarpEntry& warp = MyWarp();
  for (uint32_t parity = 0;; parity ^= 1) {
    AwaitWake(threadIdx.x / 32 - 1, parity);
    const uint32_t job = warp.job;
    if (job == kQuitJob) return;
    RunWarp<Bodies>(warp, job - 2);
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
    mtb.sequence[row] = mtb.warps_left[row] = mtb.ready[row] = mtb.begun[row] = 0;
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
