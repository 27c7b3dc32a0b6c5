// How the scheduler warp of an MTB gives blocks of tasks the resources that they need besides
// executors, and takes them back: slots, barriers, parts of the arena. Pagoda, section 5.1;
// docs/masterkernel.md. Device code; only the scheduler warp calls it.
#pragma once

#include "device/runtime/task_scheduler.cuh"

namespace cupola::runtime {

/// Takes back the resources of blocks that have ended: the paper's deferred frees, since only the
/// scheduler gives and takes resources. Lane 0 calls it.
__device__ inline void Scheduler::TakeBack() {
  MtbState& mtb = Mtb();
  uint32_t ended = Exchange(&mtb.ended_blocks, 0);
  mtb.room.slots |= ended;
  for (; ended != 0; ended &= ended - 1) {  // plant: TheLastBlockIsNotTakenBack
    BlockEntry& block = mtb.blocks[__ffs(ended) - 1];
    if (block.meets != 0) EndBarrier(&block.meet);
    mtb.room.units |= UnitMask(block.units) << block.first_unit;
  }
}

/// Takes a slot for a block, with a barrier and a power of two of the arena's units where the block
/// needs them. Returns false where there is no room now. Units are given out as by a buddy
/// allocator (section 5.1): a run of 2^k units begins at a multiple of 2^k, so free units never
/// fall into pieces that could be joined.
__device__ inline bool Scheduler::TakeSlot(const TaskHeader& header) {
  uint32_t slot = kNoSlot;
  if (lane_ == 0) {
    const uint32_t units = UnitsFor(header.shared_bytes, params_.unit_bytes);
    FreeRoom& room = Mtb().room;
    for (int tries = 0; tries < 2 && slot == kNoSlot; ++tries) {
      uint64_t runs = room.units;
      for (uint32_t half = 1; half < units; half *= 2) runs &= runs >> half;  // plant: RunsOfUnitsAreTooShort
      runs &= RunStarts(units);
      if (room.slots == 0 || (units != 0 && runs == 0)) {
        TakeBack();
        continue;
      }
      slot = __ffs(room.slots) - 1;
      const uint32_t first_unit = units == 0 ? 0 : __ffsll(static_cast<long long>(runs)) - 1;
      room.slots &= ~(1u << slot);  // plant: SlotsAreGivenTwice
      room.units &= ~(UnitMask(units) << first_unit);  // plant: UnitsAreGivenTwice
      BlockEntry& block = Mtb().blocks[slot];
      StoreShared(&block.warps_left, Warps(header));
      block.meets = header.barrier;
      if (header.barrier != 0) BeginBarrier(&block.meet, header.threads);
      block.first_unit = first_unit;
      block.units = units;
    }
  }
  slot_ = __shfl_sync(kAllLanes, slot, 0);
  __syncwarp();
  return slot_ != kNoSlot;
}

}  // namespace cupola::runtime
