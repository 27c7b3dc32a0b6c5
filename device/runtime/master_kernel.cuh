// The MasterKernel: a resident kernel that runs narrow tasks as they come, without a launch for
// each. Pagoda, section 4.1; docs/masterkernel.md says what differs from the paper and why.
//
// An MTB consists of a scheduler warp and executor warps. The scheduler pulls records from the
// column with the MTB's number and hands the tasks' warps to executors. Each executor sleeps at a
// barrier until it is handed a warp. This is device code of one MTB; programs call nothing here.
#pragma once

#include "device/runtime/mtb.cuh"
#include "device/runtime/task_leaving.cuh"
#include "device/runtime/task_order.cuh"
#include "device/runtime/task_room.cuh"

namespace cupola::runtime {

/// Leaves the follower in `row` to the scheduler.
__device__ inline void LeaveFollower(uint32_t row) {
  // plant: AFollowerIsStartedByNobody
  if (threadIdx.x % 32 == 0) MarkBits(&Mtb().released[row / 32], 1u << (row % 32));
}

/// Starts a follower with the executors that were taken for it. Where other tasks wait for
/// executors, gives the executors back and leaves the follower to the scheduler. Returns whether it
/// was started.
__device__ inline bool StartWith(uint32_t executors, uint32_t row, bool is_crowded) {
  if (!is_crowded) {
    Wake(executors);
    return true;
  }
  GiveBackExecutors(executors);  // plant: WhoIsReadyIsNotGivenBack
  FenceForMtb();
  __syncwarp();
  LeaveFollower(row);
  return false;
}

/// Starts the follower in `row`, whose predecessor has just ended, if there are executors for it.
/// Otherwise leaves it to the scheduler, or to the warp that is making executors ready for it. A
/// follower needs no slot (Scheduler::Follow). It sees what its predecessor wrote, since lane 0 has
/// seen all warps of that task end. Returns whether this call started it.
__device__ inline bool StartFollower(uint32_t row, bool is_crowded) {
  uint32_t ready = kNothingReady;
  if (threadIdx.x % 32 == 0) {
    uint32_t* const word = &Mtb().ready[row];
    ready = LoadAcquire(word);
    if (ready == kNothingReady || ready == kMakingReady) ready = Exchange(word, kStarts);
  }
  ready = __shfl_sync(kAllLanes, ready, 0);
  // plant: AFollowerDoesNotSeeWhatWasWritten
  __syncwarp();  // what lane 0 has seen to end has ended for lanes that hand out the follower
  if (ready == kMakingReady) return false;  // plant: WhatIsReadyIsStartedByTwo
  if (ready != kNothingReady) return StartWith(ready, row, is_crowded);
  const TaskHeader& header = Header(row);
  const uint32_t warps = Warps(header) * header.blocks;
  if (!is_crowded && HandWarps(row, kNoSlot, {}, warps, warps) != 0) return true;
  LeaveFollower(row);
  return false;
}

/// Called while a task runs that this warp has started. Takes executors for that task's own
/// follower, if it has one and a quarter of the executors stays free for others: to start the
/// follower is then only to wake them. This comes before `done` of the warp's own task is written,
/// so before the host can write the follower's row again.
__device__ inline void MakeReady(uint32_t row_before) {
  const bool is_first = threadIdx.x % 32 == 0;
  uint32_t follower = 0;
  if (is_first) {
    follower = LoadAcquire(&Mtb().warps_left[row_before]) >> kFollowerShift;
    if (follower != 0 &&
        CompareAndSwap(&Mtb().ready[follower - 1], kNothingReady, kMakingReady) != kNothingReady) {
      follower = 0;  // the follower has been started
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
    // plant: WhatIsReadyIsNotFenced
    FenceForMtb();  // who starts it sees who was taken, and the scheduler sees what was written
    before = CompareAndSwap(&Mtb().ready[row], kMakingReady, taken);
    is_crowded = taken == 0 ? 1 : LoadAcquire(&Mtb().crowded);
  }
  // plant: WhatIsReadyIsStartedByNobody, WhatIsReadyStartsAtOnce
  if (__shfl_sync(kAllLanes, before, 0) != kStarts) return;
  // The task before it has ended meanwhile, and its last warp has left the start to this warp.
  __syncwarp();  // what lane 0 has seen is seen by all lanes
  StartWith(taken, row, __shfl_sync(kAllLanes, is_crowded, 0) != 0);
}

/// Runs behind the body. The last warp of a block gives back what the block had. The last warp of
/// the task starts the follower and tells the host. All lanes call it. One fence comes before all
/// words by which others decide.
__device__ inline void FinishWarp(const MasterParams& params, WarpEntry& warp, uint32_t row) {
  MtbState& mtb = Mtb();
  const bool is_first = threadIdx.x % 32 == 0;
  uint32_t sequence = 0, follower = 0, is_crowded = 0;
  bool is_last = false;
  if (is_first) {
    const uint32_t slot = warp.slot;
    sequence = mtb.sequence[row];
    // plant: WarpsOfATaskDoNotSeeEachOther
    FenceForMtb();  // behind all reads of words that the scheduler may write next
    if (slot != kNoSlot && CountDown(&mtb.blocks[slot].warps_left) == 1) {  // plant: BlocksAreTakenBackEarly
      FenceForMtb();
      MarkBits(&mtb.ended_blocks, 1u << slot);  // plant: ABlockThatEndsHidesAnother
    }
    const uint32_t before = CountDown(&mtb.warps_left[row]);
    is_last = (before & kCountMask) == 1;  // plant: TheFirstWarpTellsTheHost
    if (is_last) {  // plant: EachWarpStartsTheFollower
      follower = before >> kFollowerShift;
      // With acquire: sees what the other warps and the scheduler wrote.
      (void)LoadAcquire(&mtb.warps_left[row]);  // plant: AFollowersPredecessorsAreNotSeen
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
    StoreRelease(&params.done[blockIdx.x * kTaskRows + row], sequence);  // plant: ResultsAreNotFenced
    Count(&mtb.ended, 1);
  }
  StoreShared(&warp.job, kNoJob);
}

/// The loop of an executor warp: runs the warps of tasks that it is handed.
template <class Bodies>
__device__ void RunExecutor(const MasterParams& params) {
  WarpEntry& warp = MyWarp();
  for (uint32_t parity = 0;; parity ^= 1) {  // plant: APhaseThatHasEndedIsAwaited, ThePhaseBeforeTheFirstIsAwaited
    AwaitWake(threadIdx.x / 32 - 1, parity);
    const uint32_t job = warp.job;
    if (job == kQuitJob) return;
    RunWarp<Bodies>(warp, job - 2);
    FinishWarp(params, warp, job - 2);
    __syncwarp();
  }
}

/// A block of the MasterKernel: a scheduler warp and at most kMostExecutors executor warps.
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
