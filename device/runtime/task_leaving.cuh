// How the scheduler warp of an MTB ends, with all tasks run or in a hurry, and takes up what one in a
// hurry has left. docs/narrow-tasks.md, "Leaving". Device code.
#pragma once

#include "device/runtime/task_scheduler.cuh"

namespace cupola::runtime {

/// Lane 0 of column 0 tells all what the host has said. Where the kernel is to leave, as it is when
/// no column has had anything to do for long, the host is told first, once, that it takes no more
/// tasks, then the other columns.
__device__ inline void Scheduler::Hear(const HostControl& host, const DeviceControl& device) {
  const uint64_t now = NowNs();
  if (busy_ || device.busy != 0) Mtb().idle_since = now;
  if (host.awake != device.awake) StoreRelaxed(&params_.device->awake, host.awake);
  const bool hurries = host.hurry == params_.epoch;
  const bool is_asked = hurries || host.leave == params_.epoch;
  if (!is_asked && now - Mtb().idle_since < params_.idle_ns) return;
  StoreRelaxed(&params_.state->running, 0);
  FenceForHost();
  if (hurries) StoreRelaxed(&params_.device->hurry, params_.epoch);
  StoreRelaxed(&params_.device->leave, params_.epoch);
}

/// Takes in whether there is a hurry, from what lanes have read; column 0 tells the others.
__device__ inline void Scheduler::NoteHurry(const uint4& seen) {
  const bool is_told = __shfl_sync(kAllLanes, seen.z, kHostLane) == params_.epoch;
  if (blockIdx.x == 0 && is_told && lane_ == 0) {
    StoreRelaxed(&params_.device->hurry, params_.epoch);
  }
  const bool leaves = leaves_;
  Knows(seen, kDeviceLane);
  leaves_ = leaves || hurries_;
}

/// The same where nothing else is looked at.
__device__ inline void Scheduler::HearHurry() {
  uint4 seen = {};
  if (lane_ == kDeviceLane) seen = LoadRelaxedSystem(params_.device);
  if (lane_ == kHostLane && blockIdx.x == 0 && leaves_) seen = LoadRelaxedSystem(params_.host);
  NoteHurry(seen);
}

/// Tasks that an earlier launch in a hurry has left are there again, as if they had been pulled in
/// their order.
__device__ inline void Scheduler::TakeKept() {
  uint32_t* const kept = params_.kept + blockIdx.x * kTaskRows;
  const uint32_t mine[2] = {kept[lane_], kept[lane_ + 32]};
  const uint32_t rows[2] = {__ballot_sync(kAllLanes, mine[0]), __ballot_sync(kAllLanes, mine[1])};
  if ((rows[0] | rows[1]) == 0) return;
  resumes_ = true;
  SetBusy(true);
  kept[lane_] = kept[lane_ + 32] = 0;
  if (lane_ == 0) Count(&Mtb().ended, -(__popc(rows[0]) + __popc(rows[1])));
  const uint32_t end = head_;
  for (head_ = end - kTaskRows; head_ != end;) {
    const uint32_t row = head_ % kTaskRows, half = row / 32;
    const uint32_t begun = __shfl_sync(kAllLanes, half == 0 ? mine[0] : mine[1], row % 32);
    if (begun == 0) {
      ++head_;
      continue;
    }
    uint4 chunk = {};
    if (lane_ < kRecordChunks) {
      chunk = LoadAcquireSystem(&params_.columns[blockIdx.x].rows[row].chunks[lane_]);
    }
    Take(chunk, 1);
    if (begun > 1 && lane_ == 0) {
      Mtb().begun[row] = begun - 1;
      Count(&Mtb().warps_left[row], -(Warps(Header(row)) * ((begun - 1) >> 5) + ((begun - 1) & 31)));
    }
    __syncwarp();
  }
  tail_ = head_;
}

/// Runs what was written before the host knew that no more is taken (docs/narrow-tasks.md,
/// "Leaving"), and all that was there, unless there is a hurry.
__device__ inline void Scheduler::RunRest() {
  const uint64_t since = WarpTimeNs();
  // At least until a look at the records has found nothing, or all that a column can hold has come:
  // the host may rely on what it wrote before it saw that the kernel runs.
  const uint32_t first = head_;
  quiet_ = kQuietLooks;
  for (bool found = true; !hurries_ && ((found && head_ - first < kTaskRows) ||
                                        WarpTimeNs() - since < kLastLookNs);) {
    const uint4 seen = Look(blockIdx.x == 0);
    found = Pull(seen);
    if (found) SetBusy(true);
    HandOut();
    NoteHurry(seen);
  }
  for (uint32_t turn = 1; !hurries_ && !AllHaveEnded(); ++turn) {
    HandOut();
    if (turn % kTurnsOfALook == 0) HearHurry();
  }
}

/// In a hurry: what has not begun is left to the next launch, but for the rest of a block that may
/// wait for all its warps.
__device__ inline void Scheduler::KeepRest() {
  SetCrowded(true);  // so that nobody starts a follower
  if (left_ != 0 && next_.warp == 0 && slot_ != kNoSlot) {
    left_ = 0;
    ++blocks_left_;
  }
  while (left_ != 0 && slot_ != kNoSlot) HandUpTo(left_);
  AwaitExecutors();
  for (uint32_t row = lane_; row < kTaskRows; row += 32) {
    if ((LoadAcquire(&Mtb().warps_left[row]) & kCountMask) == 0) continue;
    uint32_t begun = Mtb().begun[row];  // of one that was left before, too
    if (left_ != 0 && row == row_) begun = BegunTo(next_.block, next_.warp);
    if (blocks_left_ != 0 && row == roomy_row_) {
      begun = BegunTo(Header(row).blocks - blocks_left_, 0);
    }
    params_.kept[blockIdx.x * kTaskRows + row] = begun + 1;
  }
}

/// Until all executors are free. Twice, for one that was free when it was looked at may have been
/// handed a follower by one that then became free; none is handed any more after the first time.
__device__ inline void Scheduler::AwaitExecutors() {
  const uint32_t executors = blockDim.x / 32 - 1;
  const uint32_t* const job = &Mtb().warps[lane_].job;
  for (uint32_t times = 0; times < 2;) {
    const bool are_free = __all_sync(kAllLanes, lane_ >= executors || LoadAcquire(job) == kNoJob);
    times = are_free ? times + 1 : 0;
  }
}

/// The host has been told that the kernel takes no more tasks; then the executors are let go.
__device__ inline void Scheduler::End() {
  RunRest();
  if (hurries_) KeepRest();
  SetBusy(false);
  AwaitExecutors();  // who has ended a task may not yet have said that it is free
  const uint32_t executors = blockDim.x / 32 - 1;
  if (lane_ < executors) StoreShared(&Mtb().warps[lane_].job, kQuitJob);
  Wake((1u << executors) - 1);
  if (lane_ == 0) params_.heads[blockIdx.x] = head_;
}

}  // namespace cupola::runtime
