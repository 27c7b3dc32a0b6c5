// How the scheduler warp of an MTB keeps tasks in order: a task that waits for another one of its column is left to that
// one as its follower, or watched by the scheduler. docs/masterkernel.md. Device code; only the scheduler warp calls it.
#pragma once

#include "device/runtime/task_scheduler.cuh"

namespace cupola::runtime {

/// The word MtbState::warps_left of the task that the task in `row` waits for. Null: that task has
/// ended, since another one lies in its row now, and the host writes a row only when its task has
/// ended.
__device__ inline uint32_t* Scheduler::LeftBefore(uint32_t row) {
  MtbState& mtb = Mtb();
  const uint32_t sequence = mtb.sequence[row] - Header(row).after;
  const uint32_t other = (sequence - 1) % kTaskRows;
  return mtb.sequence[other] == sequence ? &mtb.warps_left[other] : nullptr;
}

/// The state of a task that waits for another one. kReady: that one has ended. kFollows: it is left to
/// that one's last warp, as its follower, and is none of the scheduler's. kWaiting: that one has
/// another follower, or the blocks of this task need a slot, which only the scheduler gives. Each lane
/// may call it for a task of its own.
__device__ inline uint32_t Scheduler::Follow(uint32_t row) {
  uint32_t* const left = LeftBefore(row);
  if (left == nullptr) return kReady;
  for (uint32_t found = LoadAcquire(left);;) {
    if ((found & kCountMask) == 0) return kReady;  // plant: AFollowerComesTooLate
    if (found > kCountMask || NeedsSlot(Header(row))) return kWaiting;  // plant: TheThirdInARowStartsEarly
    FenceForMtb();  // who starts it sees the record
    const uint32_t before = CompareAndSwap(left, found, found | (row + 1) << kFollowerShift);
    if (before == found) return kFollows;  // plant: AFollowerIsStartedByTwo
    found = before;
  }
}

/// Whether the task that the task in `row` waits for has ended.
__device__ inline bool Scheduler::IsMet(uint32_t row) {
  const uint32_t* const left = LeftBefore(row);
  return left == nullptr || (LoadAcquire(left) & kCountMask) == 0;  // plant: ASuccessorStartsEarly
}

/// Makes tasks ready whose predecessors have ended: those that the scheduler watches itself (kWaiting),
/// and followers that could not be started and were left to the scheduler (MtbState::released). Each
/// lane looks after two rows.
__device__ inline void Scheduler::Promote() {
  if (!follows_ && !waits_) return;
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t* const released = &Mtb().released[half];
    uint32_t rows = 0;
    if (follows_ && lane_ == 0 && LoadAcquire(released) != 0) rows = Exchange(released, 0);
    if (((__shfl_sync(kAllLanes, rows, 0) >> lane_) & 1) != 0) rows_ |= kReady << half;
  }
  if (waits_) {
    for (uint32_t half = 0; half < 2; ++half) {
      if ((rows_ & (kWaiting << half)) != 0 && IsMet(lane_ + 32 * half)) {
        rows_ ^= (kWaiting | kReady) << half;
      }
    }
    waits_ = __any_sync(kAllLanes, rows_ >= kWaiting);
  }
  __syncwarp();  // what one lane has seen to end has also ended for the lanes that hand out
}

}  // namespace cupola::runtime
