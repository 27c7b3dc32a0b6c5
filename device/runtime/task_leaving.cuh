// How the scheduler warp of an MTB ends, either when all tasks have run or in a hurry, and how the
// next launch takes up the tasks that one in a hurry has left. docs/masterkernel.md, "Leaving".
// Device code.
#pragma once

#include "device/runtime/task_scheduler.cuh"

namespace cupola::runtime {

/// Whether the host's request to leave in a hurry is meant for this launch too. The host names the
/// newest launch, which may come behind one that is still leaving.
__device__ inline bool IsMeant(uint32_t hurry, uint32_t epoch) {
  return hurry != 0 && hurry - epoch <= kMostEpochsBehind;  // plant: AHurryIsOfTheNewestOnly
}

/// Lane 0 of column 0 tells all columns what the host has said. `awake` and `busy` are the device's
/// words. The kernel is to leave when the host asks, or when no column has had anything to do for
/// idle_ns. Then the function first tells the host, once, that the kernel takes no more tasks, and
/// after that the other columns.
__device__ inline void Scheduler::Hear(const HostControl& host, uint32_t awake, uint32_t busy) {
  const uint64_t now = NowNs();
  if (busy_ || busy != 0) Mtb().idle_since = now;
  if (host.awake != awake) StoreRelaxed(&params_.device->awake, host.awake);
  const bool hurries = IsMeant(host.hurry, params_.epoch);  // plant: AHurryIsNotHeard
  const bool is_asked = hurries || host.leave == params_.epoch;
  if (!is_asked && now - Mtb().idle_since < params_.idle_ns) return;
  StoreRelaxed(&params_.state->running, 0);
  FenceForHost();
  if (hurries) StoreRelaxed(&params_.device->hurry, params_.epoch);
  StoreRelaxed(&params_.device->leave, params_.epoch);
}

/// While the MasterKernel leaves: reads whether it is to leave in a hurry, and whether other columns
/// are still leaving. If `asks_host`, the column reads the host's word itself; column 0 then tells
/// the others.
__device__ inline void Scheduler::HearHurry(bool asks_host) {
  uint4 seen = {};
  if (lane_ == 0) seen = LoadRelaxedSystem(params_.device);
  if (lane_ == 1 && asks_host) seen = LoadRelaxedSystem(params_.host);
  // plant: OneThatLeavesHearsNoHurry
  const bool is_meant = IsMeant(__shfl_sync(kAllLanes, seen.z, 1), params_.epoch);
  hurries_ = hurries_ || is_meant || __shfl_sync(kAllLanes, seen.w, 0) == params_.epoch;
  others_leave_ = __shfl_sync(kAllLanes, seen.z, 0) > 1 + (busy_ ? 1 : 0);
  if (is_meant && blockIdx.x == 0 && lane_ == 0) {  // plant: OnlyTheFirstColumnHearsAHurry
    StoreRelaxed(&params_.device->hurry, params_.epoch);
  }
}

/// Reads a record that was kept into shared memory, and returns its Scheduler::rows_ bit. Each lane
/// may call it for a row of its own.
__device__ inline uint32_t TakeKeptRow(const TaskColumn& column, uint32_t row, uint32_t begun) {
  MtbState& mtb = Mtb();
  uint32_t chunks = 1;
  for (uint32_t part = 0; part < chunks; ++part) {
    const uint4 chunk = LoadAcquireSystem(&column.rows[row].chunks[part]);
    KeepChunk(row, part, chunk);
    if (part != 0) continue;
    mtb.sequence[row] = chunk.w;
    chunks = (chunk.x >> 16) & 0xff;
  }
  const TaskHeader& header = Header(row);
  mtb.begun[row] = begun;
  const uint32_t warps = Warps(header);
  StoreShared(&mtb.warps_left[row], warps * (header.blocks - (begun >> 5)) - (begun & 31));
  return header.after == 0 ? Scheduler::kReady : Scheduler::kWaiting;  // plant: KeptTasksDoNotWait
}

/// Takes up the tasks that an earlier launch in a hurry has left. Returns Scheduler::rows_ of the lane.
__device__ inline uint32_t TakeKept(const TaskColumn* column, uint32_t* kept,
                                    const uint32_t (&found)[2]) {
  uint32_t rows = 0, count = 0;
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t row = threadIdx.x + 32 * half;
    if (found[half] != 0) {
      kept[row] = 0;  // plant: KeptTasksRunTwice
      rows |= TakeKeptRow(*column, row, found[half] - 1) << half;
    }
    count += __popc(__ballot_sync(kAllLanes, found[half]));
  }
  if (threadIdx.x == 0) Count(&Mtb().ended, -count);
  return rows;
}

/// Copies the record that came with the launch into shared memory, if it is the record of `position`
/// and its task waits for no other. Returns whether it did.
__device__ inline bool TakeFirst(const TaskChunk* chunks, uint32_t position) {
  // plant: AFirstThatHasRunIsTaken, AFirstDoesNotWait
  if (chunks[0].sequence != position + 1 || chunks[0].words[1] >> 16 != 0) return false;
  MtbState& mtb = Mtb();
  const uint32_t row = position % kTaskRows;
  for (uint32_t word = threadIdx.x; word < kRecordWords; word += 32) {
    mtb.records[row][word] = chunks[word / kChunkWords].words[word % kChunkWords];
  }
  __syncwarp();
  const TaskHeader& header = Header(row);
  if (threadIdx.x == 0) {
    mtb.sequence[row] = position + 1;
    StoreShared(&mtb.warps_left[row], Warps(header) * header.blocks);
  }
  return true;
}

/// Called by the scheduler warp when shared memory is cleared. It reads all it needs of device memory
/// at once. This function and others that run rarely are not inline, since the scheduler has few
/// registers.
__device__ __noinline__ inline Beginning Begin(const MasterParams& params) {
  uint32_t* const kept = params.kept + blockIdx.x * kTaskRows;
  uint4 device = LoadRelaxedSystem(params.device);
  Beginning now = {.head = params.heads[blockIdx.x], .rows = 0};
  const uint32_t found[2] = {kept[threadIdx.x], kept[threadIdx.x + 32]};
  if (threadIdx.x == 0) {
    Mtb().idle_since = NowNs();
    Mtb().ended = now.head;
  }
  if (__any_sync(kAllLanes, found[0] | found[1])) {
    now.rows = TakeKept(params.columns + blockIdx.x, kept, found);  // plant: KeptTasksAreForgotten
    device = LoadRelaxedSystem(params.device);  // TakeKept took the time of some host memory reads
  }
  // A block that begins late may be asked to leave already: then it begins nothing else.
  const auto word = [](uint32_t own) { return __shfl_sync(kAllLanes, own, 0); };
  now.is_awake = blockIdx.x < word(device.x);
  now.leaves = word(device.y) == params.epoch;
  now.hurries = word(device.w) == params.epoch;
  // plant: AnotherColumnTakesTheFirst
  if (blockIdx.x == params.first_column && !now.leaves && TakeFirst(params.first, now.head)) {
    const uint32_t row = now.head++ % kTaskRows;  // plant: WhatCameFirstIsTakenAgain
    if (threadIdx.x == row % 32) now.rows |= Scheduler::kReady << (row / 32);
  }
  __syncwarp();
  return now;
}

/// Writes down what the next launch takes up: every task that has warps left. `first_begun` and
/// `second_begun` say how far the tasks in the rows `first` and `second` have begun; kTaskRows: there
/// is no such row.
__device__ __noinline__ inline void WriteKept(uint32_t* kept, uint32_t first, uint32_t first_begun,
                                       uint32_t second, uint32_t second_begun) {
  __syncwarp();  // each lane reads what lane 0 wrote when it handed blocks out
  for (uint32_t row = threadIdx.x; row < kTaskRows; row += 32) {
    if ((LoadAcquire(&Mtb().warps_left[row]) & kCountMask) == 0) continue;
    // plant: BlocksRunTwiceBehindTwoHurries
    uint32_t begun = Mtb().begun[row];  // not 0 for a task that was left before, too
    if (row == first) begun = first_begun;  // plant: WarpsRunTwiceBehindAHurry
    if (row == second) begun = second_begun;  // plant: BlocksWithRoomRunTwiceBehindAHurry
    kept[row] = begun + 1;
  }
}

/// In a hurry: whether no block has begun that may wait for warps of its own which have not begun.
__device__ inline bool Scheduler::MayLeaveRest() const {
  return left_ == 0 || slot_ == kNoSlot || next_.warp == 0;  // plant: ABlockIsTornByAHurry
}

/// Runs the records that the host wrote before it knew that the kernel takes no more
/// (docs/masterkernel.md, "Leaving"), and all tasks that were there. In a hurry, runs only the rest of
/// a block that has begun. Column 0 stays until the other columns have finished, to hear of a hurry
/// for them.
__device__ inline void Scheduler::RunRest() {
  if (lane_ == 0) {
    Mtb().idle_since = NowNs();
    atomicAdd(&params_.device->busy, 1u);  // a column that leaves counts once more
  }
  __syncwarp();
  const bool is_first = blockIdx.x == 0;
  // Look at least until a look at the records has found nothing, or as many records have come as a
  // column can hold: the host relies on what it wrote before it saw that the kernel runs.
  const uint32_t first = head_;
  quiet_ = kQuietLooks;
  for (bool found = true; !hurries_ && ((found && head_ - first < kTaskRows) ||
                                        WarpTimeNs() - Mtb().idle_since < kLastLookNs);) {
    found = Pull(Look(false));
    if (found) SetBusy(true);
    HandOut();
    HearHurry(is_first);
  }
  for (uint32_t turn = 0;  // plant: TheFirstColumnEndsFirst
       hurries_ ? !MayLeaveRest() : !AllHaveEnded() || (is_first && others_leave_); ++turn) {
    HandOut();
    // Column 0 may have ended before a column that began when all were to leave.
    HearHurry(is_first || (is_late_ && turn % kTurnsOfALateLook == 0));
  }
  if (lane_ == 0) atomicAdd(&params_.device->busy, ~0u);
}

/// In a hurry, when no executor runs: leaves all that has not begun to the next launch.
__device__ inline void Scheduler::KeepRest() {
  if (left_ != 0 && slot_ != kNoSlot) {  // a block that has room but was handed to no executor
    left_ = 0;
    ++blocks_left_;
  }
  const uint32_t handed_row = left_ != 0 ? row_ : kTaskRows,
                 roomy_row = blocks_left_ != 0 ? roomy_row_ : kTaskRows;
  const uint32_t roomy_block = blocks_left_ != 0 ? Header(roomy_row_).blocks - blocks_left_ : 0;
  WriteKept(params_.kept + blockIdx.x * kTaskRows, handed_row, BegunTo(next_.block, next_.warp),
            roomy_row, BegunTo(roomy_block, 0));
}

/// Waits until all executors are free. It must see that twice in a row: an executor that was free when
/// the scheduler looked at it may have been handed a follower by one that became free after that. No
/// follower is handed out any more after the first time.
__device__ inline void Scheduler::AwaitExecutors() {
  const uint32_t executors = blockDim.x / 32 - 1;
  const uint32_t* const job = &Mtb().warps[lane_].job;
  for (uint32_t times = 0; times < 2;) {
    const bool are_free = __all_sync(kAllLanes, lane_ >= executors || LoadAcquire(job) == kNoJob);
    times = are_free ? times + 1 : 0;  // plant: WhoRunsInAHurryIsNotWaitedFor
  }
}

/// The host has been told that the kernel takes no more tasks. Runs or keeps the rest, and then lets
/// the executors end.
__device__ inline void Scheduler::End() {
  RunRest();
  if (hurries_) SetCrowded(true);  // so that no executor starts a follower
  SetBusy(false);
  AwaitExecutors();  // an executor that has ended a task may not yet have said that it is free
  if (hurries_) KeepRest();
  const uint32_t executors = blockDim.x / 32 - 1;
  if (lane_ < executors) StoreShared(&Mtb().warps[lane_].job, kQuitJob);
  Wake((1u << executors) - 1);
  if (lane_ == 0) params_.heads[blockIdx.x] = head_;  // plant: AHeadIsForgotten
}

}  // namespace cupola::runtime
