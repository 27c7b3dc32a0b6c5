// The MasterKernel: a resident kernel that runs narrow tasks as they come, without a launch for
// each. Pagoda, section 4.1; docs/narrow-tasks.md says what is done otherwise and why.
//
// An MTB is a scheduler warp, which pulls records from the column of the same number and hands them
// to executor warps, and the executor warps, which sleep at a barrier each until they are handed
// one. Device code of one MTB; programs call nothing here.
#pragma once

#include "device/runtime/mtb.cuh"
#include "device/runtime/task_scheduler.cuh"

namespace cupola::runtime {

/// Behind the body: lane 0 of the warp. What the block had is given back by its last warp; the last
/// of the task tells the host. One fence is before all that others go by.
__device__ inline void FinishWarp(const MasterParams& params, WarpEntry& warp, uint32_t row) {
  MtbState& mtb = Mtb();
  const uint32_t sequence = mtb.sequence[row], slot = warp.slot;
  FenceForMtb();  // behind all reads of what the scheduler may write next
  if (slot != kNoSlot && CountDown(&mtb.blocks[slot].warps_left) == 1) {
    FenceForMtb();
    MarkEnded(&mtb.ended_blocks, 1u << slot);
  }
  if (CountDown(&mtb.warps_left[row]) == 1) {
    FenceForHost();
    StoreRelaxed(&params.done[blockIdx.x * kTaskRows + row], sequence);
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
    if (lane == 0) FinishWarp(params, warp, job - 2);
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
    mtb.sequence[row] = mtb.warps_left[row] = 0;
  }
  if (threadIdx.x == 0) {
    mtb.ended_blocks = 0;
    mtb.room = {~0ull, ~0u};
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    Scheduler(params).Run();
  } else {
    RunExecutor<Bodies>(params);
  }
}

}  // namespace cupola::runtime
