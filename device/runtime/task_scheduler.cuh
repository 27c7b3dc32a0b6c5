// The scheduler warp of an MTB: pulls task records from the MTB's column in host memory and hands
// the tasks' warps to executor warps. Pagoda, sections 4.3 and 5.1, algorithms 1 and 2;
// docs/masterkernel.md. Device code; only the scheduler warp calls it.
//
// Words
//   head, tail   positions in the column (task_record.h): of the next record to take, and behind the
//                last one that the host has written
//   look         one read of host memory and of DeviceControl, at the tail or at the next record
//   turn         one pass of the loop in Run
//   row          a task's place in shared memory: position % kTaskRows
//   slot, room   a block with a barrier or shared memory needs a slot (MtbState::blocks) and units of
//                the arena; both together are room (task_room.cuh)
//   follower     a task that waits for another one and is started by that one's last warp, without
//                the scheduler (task_order.cuh)
//   hurry        the MasterKernel leaves as soon as the blocks that run have ended; tasks that have
//                not run are kept for the next MasterKernel (task_leaving.cuh)
#pragma once

#include "device/runtime/mtb.cuh"

namespace cupola::runtime {

/// After the host was told that the kernel leaves, a column looks for records this much longer: a
/// store waits in a processor's buffer for less.
inline constexpr uint32_t kLastLookNs = 10'000;

/// Number of records that a warp reads at once, with a lane for each of their near chunks.
inline constexpr uint32_t kRecordsOfALook = 32 / kNearChunks;

/// After this many looks at the column's tail that found nothing, the scheduler looks at the next
/// record itself. That saves a task that comes alone a way to the host and back.
inline constexpr uint32_t kQuietLooks = 4;

/// All columns except column 0 wait this long between looks at their tail that find nothing: many looks
/// slow the host down, since they take the lines that the host writes next.
inline constexpr uint32_t kPauseNs = 1'000;

/// While tasks wait for executors, column 0 looks at host memory once in kTurnsOfALook turns, and the
/// other columns look as rarely at what column 0 tells them (DeviceControl): a look takes longer than an
/// executor should be left without work. While only blocks wait, for room, every column looks at host
/// memory once in kTurnsOfARoomLook turns.
inline constexpr uint32_t kTurnsOfALook = 128, kTurnsOfARoomLook = 64;

/// While a block wants room, the scheduler looks for tasks that may pass it once in this many turns.
inline constexpr uint32_t kTurnsOfAPass = 16;

/// Where no record comes, the host's words are read only with every kTurnsOfAQuietHearing-th look at
/// the next record: a look at one line takes less time than a look at two.
inline constexpr uint32_t kTurnsOfAQuietHearing = 8;

/// The scheduler waits this many turns, some 2 us, for a task that it started alone before it looks
/// again: the store by which the task's last warp tells the host would wait for a look that is under
/// way.
inline constexpr uint32_t kTurnsAlone = 64;

/// While tasks wait for other tasks, which the scheduler sees in shared memory alone, it looks at host
/// memory once in this many turns.
inline constexpr uint32_t kTurnsOfAWaitingLook = 16;

/// A column that began when all were to leave asks the host once in this many turns whether it is to
/// leave in a hurry.
inline constexpr uint32_t kTurnsOfALateLook = 64;

/// What the scheduler finds when the kernel begins.
struct Beginning {
  uint32_t head;  ///< position of the next record
  uint32_t rows;  ///< Scheduler::rows_ of this lane
  bool is_awake;  ///< the column is pulled from
  bool leaves;    ///< the MasterKernel is already leaving
  bool hurries;   ///< it leaves in a hurry
};
__device__ inline Beginning Begin(const MasterParams& params);  // task_leaving.cuh

/// The scheduler warp. All its lanes call each function together. Members have the same value in all
/// lanes, except where a member's comment says otherwise. Lane 0 reads for all lanes whatever the
/// scheduler decides by (words that others write, the time), or lanes would part. No function waits:
/// what cannot go on is tried again in the next turn, so that a task holds up none that could run.
class Scheduler {
 public:
  __device__ Scheduler(const MasterParams& params, const Beginning& beginning)
      : params_(params),
        lane_(threadIdx.x % 32),
        head_(beginning.head),
        tail_(head_),
        rows_(beginning.rows),
        row_(0),
        slot_(kNoSlot),
        roomy_row_(0),
        busy_(false),
        awake_(beginning.is_awake),
        leaves_(beginning.leaves),
        hurries_(beginning.hurries),
        crowded_(false),
        is_late_(beginning.leaves),
        others_leave_(true),
        waits_(false),
        follows_(false),
        resumes_(false),
        passes_(true),
        quiet_(kQuietLooks) {}

  /// Runs until the MasterKernel leaves and every task that was there has run, or has been kept.
  __device__ void Run();

  // Bits of a lane's rows_, a pair each: the value given here is the bit for row `lane`, the next higher
  // bit that for row `lane` + 32. A task that is being handed out, runs, has ended or is a follower has
  // neither bit.
  static constexpr uint32_t kReady = 1, kWaiting = 4;

 private:
  static constexpr uint32_t kFollows = 0;  // a result of Follow, and no bit of rows_
  // In a look these lanes read words other than the column's.
  static constexpr uint32_t kDeviceLane = 30, kHostLane = 31;

  __device__ void Turn(bool hears);
  __device__ bool LooksAtRecord() const { return quiet_ == kQuietLooks && !busy_; }
  __device__ bool HasMore() const { return static_cast<int32_t>(tail_ - head_) > 0; }
  __device__ uint4 Look(bool hears) const;
  __device__ bool StartAlone(const uint4& chunk);
  __device__ bool Pull(uint4 seen);
  __device__ uint32_t Take(const uint4& chunk, uint32_t asked);
  __device__ static uint32_t Follow(uint32_t row);
  __device__ void Promote();
  __device__ static uint32_t* LeftBefore(uint32_t row);
  __device__ static bool IsMet(uint32_t row);
  __device__ void HandOut();
  __device__ bool FindWork();
  __device__ bool MayPass(uint32_t row) const;
  __device__ bool NextTask();
  __device__ bool TakeSlot(const TaskHeader& header);
  __device__ void TakeBack();
  __device__ bool AllHaveEnded() const {
    return __shfl_sync(kAllLanes, LoadAcquire(&Mtb().ended), 0) == head_;
  }
  __device__ void SetCrowded(bool crowded);
  __device__ void SetBusy(bool busy);
  __device__ bool Knows(const uint4& device, uint32_t lane);
  __device__ void Hear(const HostControl& host, uint32_t awake, uint32_t busy);
  __device__ void HearHurry(bool asks_host);
  __device__ bool MayLeaveRest() const;
  __device__ void RunRest();
  __device__ void KeepRest();
  __device__ void AwaitExecutors();
  __device__ void End();

  const MasterParams& params_;
  const uint32_t lane_;
  uint32_t head_;             ///< position of the next record
  uint32_t tail_;             ///< position behind the last record that is known to have come
  uint32_t rows_;             ///< differs by lane: kReady and kWaiting bits of two rows
  uint32_t row_ : 6;          ///< row of the task that is being handed out
  uint32_t slot_ : 6;         ///< slot of that task's block; kNoSlot: it needs none
  uint32_t roomy_row_ : 6;    ///< row of the task whose blocks need room
  uint32_t left_ = 0;         ///< warps of the task in row_ that may be handed to executors now
  uint32_t blocks_left_ = 0;  ///< blocks of the task in roomy_row_ that have got no room
  WarpPlace next_;            ///< the next warp of the task in row_
  bool busy_ : 1;             ///< the column counts in DeviceControl::busy
  bool awake_ : 1;            ///< the column is pulled from
  bool leaves_ : 1;           ///< the MasterKernel is leaving
  bool hurries_ : 1;          ///< it leaves in a hurry
  bool crowded_ : 1;          ///< MtbState::crowded, as last written
  bool is_late_ : 1;          ///< this MTB began when all were to leave
  bool others_leave_ : 1;     ///< column 0 only, while it leaves: other columns have not finished
  bool waits_ : 1;            ///< a task waits for another one that has not ended
  bool follows_ : 1;          ///< a task may have been left to the one before it, as its follower
  bool resumes_ : 1;          ///< a task may have blocks that an earlier launch has run
  bool passes_ : 1;           ///< this turn looks for tasks that may pass a block that wants room
  uint32_t quiet_ : 3;        ///< looks at the tail in a row that found nothing, up to kQuietLooks
};

/// Reads at once all words that the scheduler decides by, and returns in each lane what that lane read.
/// Lanes 0 to 7 read the near chunks of the next record; while tasks come or run (LooksAtRecord is
/// false), lane 0 reads the column's tail instead. kDeviceLane reads DeviceControl, and kHostLane
/// HostControl if `hears`. The reads are acquires only where no task runs, since an acquire empties the
/// L1 cache of the tasks' lines.
__device__ inline uint4 Scheduler::Look(bool hears) const {
  const TaskColumn* column = params_.columns + blockIdx.x;
  const void* at = nullptr;
  if (!LooksAtRecord()) {
    if (lane_ == 0) at = &column->tail;
  } else if (lane_ < kNearChunks) {
    at = &column->rows[head_ % kTaskRows].chunks[lane_];
  }
  if (lane_ == kDeviceLane) at = params_.device;
  if (hears && lane_ == kHostLane) at = params_.host;
  if (at == nullptr) return {};
  return LooksAtRecord() ? LoadAcquireSystem(at) : LoadRelaxedSystem(at);
}

/// Called where no task runs and the look was at the next record. Starts that record's task directly
/// from `chunk`, the near chunk that this lane read, if the task is one block that needs no slot. Any
/// task that it waits for has ended, and the scheduler has seen that (AllHaveEnded). All executors are
/// free then, or will be at once, and nobody else takes them. Returns false where there is no such
/// record; nothing has changed then. Each lane checks its part of the record: the sequence of its chunk
/// and, in lanes 0 and 1, the words of the header (TaskHeader).
__device__ inline bool Scheduler::StartAlone(const uint4& chunk) {
  const uint32_t first_word = __shfl_sync(kAllLanes, chunk.x, 0),
                 second_word = __shfl_sync(kAllLanes, chunk.y, 0);
  const uint32_t warps = ((second_word & 0xffff) + 31) / 32;
  if (((first_word >> 16) & 0xff) > kNearChunks) return false;  // its far chunks were not read
  MtbState& mtb = Mtb();
  WarpEntry& entry = mtb.warps[lane_];
  bool good = chunk.w == head_ + 1;  // plant: HalfARecordIsStarted
  if (lane_ == 0) {  // barrier, blocks
    good = good && (first_word >> 24) == 0 && chunk.z == 1;  // plant: OneAloneHasOneBlock, OneAloneGetsNoBarrier
  } else if (lane_ == 1) {
    good = good && chunk.x == 0;  // shared_bytes  // plant: OneAloneGetsNoRoom
  } else {
    good = good || lane_ >= ((first_word >> 16) & 0xff);
  }
  if (lane_ < warps) good = good && LoadAcquire(&entry.job) == kNoJob;  // plant: WhoIsNotFreeIsHandedOneAlone
  if (!__all_sync(kAllLanes, good)) return false;
  const uint32_t row = head_ % kTaskRows;
  if (lane_ < kNearChunks) KeepChunk(row, lane_, chunk);
  if (lane_ == 0) {
    mtb.sequence[row] = head_ + 1;
    StoreShared(&mtb.warps_left[row], warps);
  }
  if (lane_ < warps) {
    StoreShared(&entry.job, row + 2);
    entry.block = 0;
    entry.first_thread = lane_ * 32;
    entry.slot = kNoSlot;
  }
  __syncwarp();
  Wake((1u << warps) - 1);
  ++head_;  // plant: OneAloneIsTakenAgain
  quiet_ = 0;
  return true;
}

/// Takes the records that have come, if any. Returns whether it took one. `seen` is what a look saw: the
/// next record's near chunks, or in lane 0 the tail. In the second case the records before the tail are
/// read now, up to kRecordsOfALook of them: eight lanes read one record, a chunk each.
__device__ inline bool Scheduler::Pull(uint4 seen) {
  uint32_t asked = 1;
  if (!LooksAtRecord()) {
    const auto come = static_cast<int32_t>(__shfl_sync(kAllLanes, seen.x, 0) - head_);
    if (quiet_ < kQuietLooks) ++quiet_;
    if (come <= 0) {
      if (blockIdx.x != 0 && !waits_) __nanosleep(kPauseNs);
      return false;
    }
    asked = min(static_cast<uint32_t>(come), kRecordsOfALook);
    tail_ = head_ + come;
    if (lane_ / kNearChunks < asked) {
      const uint32_t row = (head_ + lane_ / kNearChunks) % kTaskRows;
      const TaskColumn* column = params_.columns + blockIdx.x;
      seen = LoadAcquireSystem(&column->rows[row].chunks[lane_ % kNearChunks]);
    }
  }
  if (Take(seen, asked) == 0) return false;
  quiet_ = 0;
  return true;
}

/// Reads into shared memory the chunk of a longer record that lies kNearChunks behind the lane's near
/// chunk. Returns false if it has not come. A chunk that has come proves that the row is free.
__device__ inline bool TakeFarChunk(const TaskColumn* column, uint32_t position, uint32_t part) {
  const uint32_t row = position % kTaskRows;
  const uint4 chunk = LoadAcquireSystem(&column->rows[row].chunks[part]);
  if (chunk.w != position + 1) return false;  // plant: FarChunksAreNotAwaited
  KeepChunk(row, part, chunk);
  return true;
}

/// Takes into shared memory those of the first `asked` records that are complete, up to the first one
/// that is not. `chunk` is the chunk that this lane read: of record lane / 8, its chunk lane % 8.
/// Returns the number of records taken.
__device__ inline uint32_t Scheduler::Take(const uint4& chunk, uint32_t asked) {
  const uint32_t position = head_ + lane_ / kNearChunks, part = lane_ % kNearChunks;
  const uint32_t first_word = __shfl_sync(kAllLanes, chunk.x, lane_ & ~(kNearChunks - 1));
  const uint32_t chunks = (first_word >> 16) & 0xff;
  bool complete = chunk.w == position + 1 || (part != 0 && part >= chunks);  // plant: HalfARecordIsTaken
  if (complete && part + kNearChunks < chunks) {  // plant: FarChunksAreNotRead
    complete = TakeFarChunk(params_.columns + blockIdx.x, position, part + kNearChunks);
  }
  const uint32_t lanes = __ballot_sync(kAllLanes, complete);
  uint32_t records = 0;
  while (records < asked && ((lanes >> (8 * records)) & 0xff) == 0xff) ++records;
  MtbState& mtb = Mtb();
  if (lane_ / kNearChunks < records) {
    const uint32_t row = position % kTaskRows;
    KeepChunk(row, part, chunk);
    if (part == 0) {  // words 1 and 2: threads, after; blocks
      mtb.sequence[row] = position + 1;
      StoreShared(&mtb.ready[row], kNothingReady);  // plant: WhatWasReadyIsStillReady
      StoreShared(&mtb.warps_left[row], ((chunk.y & 0xffff) + 31) / 32 * chunk.z);
    }
  }
  __syncwarp();
  // The lane of each record's first chunk finds out whether the task waits for another one.
  uint32_t state = kReady;
  const uint32_t after = chunk.y >> 16;
  if (part == 0 && lane_ / kNearChunks < records && after != 0) {  // plant: OrderIsForgotten
    state = Follow(position % kTaskRows);  // plant: OneRecordAsksForAll
  }
  __syncwarp();
  for (uint32_t i = 0; i < records; ++i, ++head_) {
    const uint32_t row = head_ % kTaskRows;
    const uint32_t found = __shfl_sync(kAllLanes, state, i * kNearChunks);
    follows_ |= found == kFollows;
    waits_ |= found == kWaiting;
    if (lane_ == row % 32) rows_ |= found << (row / 32);
  }
  return records;
}

/// Whether a task may start while a block waits for room: it must need none, and must not take so many
/// executors that the block would wait for it long.
__device__ inline bool Scheduler::MayPass(uint32_t row) const {
  const TaskHeader& header = Header(row);
  return !NeedsSlot(header) && Warps(header) * header.blocks <= kMostExecutors;
}

/// Makes the oldest ready task the one that is handed out; while a block waits for room, the oldest
/// that may pass it. Returns false where there is none.
__device__ inline bool Scheduler::NextTask() {
  const bool all = blocks_left_ == 0;
  const bool mine[2] = {(rows_ & kReady) != 0 && (all || MayPass(lane_)),  // plant: WhatWaitsIsHandedOut
                        (rows_ & (kReady << 1)) != 0 && (all || MayPass(lane_ + 32))};
  const uint64_t low = __ballot_sync(kAllLanes, mine[0]), high = __ballot_sync(kAllLanes, mine[1]),
                 ready = high << 32 | low;
  if (ready == 0) return false;  // plant: ATaskThatWaitsHoldsUpOthers
  // Look from the row on that is pulled to next: the oldest task is there.
  const uint32_t oldest = head_ % kTaskRows;
  const uint64_t turned = ready >> oldest | ready << (-oldest % kTaskRows);
  row_ = (oldest + __ffsll(static_cast<long long>(turned)) - 1) % kTaskRows;
  if (lane_ == row_ % 32) rows_ ^= kReady << (row_ / 32);
  next_ = {};
  if (resumes_) {
    const uint32_t begun = Mtb().begun[row_];
    next_ = {begun >> 5, begun & 31};
    __syncwarp();
    if (lane_ == 0) Mtb().begun[row_] = 0;
  }
  return true;
}

/// If left_ is 0, finds warps that may be handed out now, and sets left_, row_, slot_ and next_ for
/// them. Returns false where there are none. Blocks that need room get it in the order of their tasks.
/// Where left_ is still 0 after true was returned, a task whose blocks need room has been made the
/// roomy one, and the caller calls again.
__device__ inline bool Scheduler::FindWork() {
  if (left_ != 0) return true;
  if (hurries_) return false;
  if (blocks_left_ != 0) {
    const TaskHeader& header = Header(roomy_row_);
    if (TakeSlot(header)) {
      row_ = roomy_row_;
      next_ = {header.blocks - blocks_left_, 0};
      --blocks_left_;
      left_ = Warps(header);
      return true;
    }
    if (!passes_) return false;  // plant: ABlockWithoutRoomHoldsUpOthers
  }
  if (!NextTask()) return false;
  const TaskHeader& header = Header(row_);
  if (NeedsSlot(header)) {
    roomy_row_ = row_;
    blocks_left_ = header.blocks - next_.block;
  } else {
    slot_ = kNoSlot;
    left_ = Warps(header) * (header.blocks - next_.block) - next_.warp;
  }
  return true;
}

/// Hands out all warps that can run, as far as there are executors and room. Tells executors whether
/// tasks wait for executors (MtbState::crowded): then they start no followers.
__device__ inline void Scheduler::HandOut() {
  Promote();
  while (FindWork()) {
    if (left_ == 0) continue;
    const uint32_t handed = HandWarps(row_, slot_, next_, 1, left_);
    if (handed == 0) break;
    left_ -= handed;
    next_.Advance(handed, Warps(Header(row_)));
  }
  SetCrowded(left_ != 0 || hurries_);
}

__device__ inline void Scheduler::SetCrowded(bool crowded) {
  if (crowded == crowded_) return;
  crowded_ = crowded;
  if (lane_ == 0) StoreShared(&Mtb().crowded, crowded ? 1 : 0);
}

__device__ inline void Scheduler::SetBusy(bool busy) {
  if (busy == busy_) return;
  busy_ = busy;
  if (lane_ == 0) atomicAdd(&params_.device->busy, busy ? 1u : ~0u);
}

/// Takes over what DeviceControl says, as the lane `lane` has read it. Returns false if the MasterKernel
/// is leaving.
__device__ inline bool Scheduler::Knows(const uint4& device, uint32_t lane) {
  awake_ = blockIdx.x < __shfl_sync(kAllLanes, device.x, lane);
  leaves_ = __shfl_sync(kAllLanes, device.y, lane) == params_.epoch;
  hurries_ = __shfl_sync(kAllLanes, device.w, lane) == params_.epoch;
  return !leaves_;
}

/// Looks at the column and at what the device says and, if `hears`, at what the host says. Where more
/// records are known to have come than the last look took, takes more of those instead, without a look.
/// Of what has come it hands out all it can before it does anything else.
__device__ inline void Scheduler::Turn(bool hears) {
  if (HasMore()) {
    if (Pull({tail_, 0, 0, 0})) return;
    tail_ = head_;
  }
  const bool may_be_alone = LooksAtRecord();
  const uint4 seen = Look(hears);
  if (may_be_alone && StartAlone(seen)) {
    SetBusy(true);
    for (uint32_t turn = 0; turn < kTurnsAlone && !AllHaveEnded(); ++turn) {
    }
  } else if (Pull(seen)) {
    HandOut();
    SetBusy(true);
  } else if (busy_ && AllHaveEnded()) {
    follows_ = false;
    SetBusy(false);
  }
  if (Knows(seen, kDeviceLane) && hears) {
    const auto word = [](uint32_t own, uint32_t lane) { return __shfl_sync(kAllLanes, own, lane); };
    const HostControl host{.awake = word(seen.x, kHostLane),
                           .leave = word(seen.y, kHostLane),
                           .hurry = word(seen.z, kHostLane)};
    const uint32_t awake = word(seen.x, kDeviceLane), busy = word(seen.z, kDeviceLane);
    if (lane_ == 0) Hear(host, awake, busy);
  }
  __syncwarp();
}

__device__ inline void Scheduler::Run() {
  waits_ = __any_sync(kAllLanes, rows_ >= kWaiting);
  resumes_ = __any_sync(kAllLanes, rows_ != 0);
  SetBusy(resumes_);
  for (uint32_t turn = 0; !leaves_; ++turn) {
    passes_ = turn % kTurnsOfAPass == 0;
    if (busy_) HandOut();
    if (left_ != 0) {
      if (turn % kTurnsOfALook != 0) continue;
      if (blockIdx.x != 0) {
        Knows(LoadRelaxedSystem(params_.device), 0);
        continue;
      }
    } else if (blocks_left_ != 0) {
      if (turn % kTurnsOfARoomLook != 0) continue;
    } else if (waits_ && turn % kTurnsOfAWaitingLook != 0) {
      continue;
    }
    if (blockIdx.x == 0 || busy_ || awake_) {  // plant: ABusyColumnSleeps
      const bool hears = quiet_ < kQuietLooks || turn % kTurnsOfAQuietHearing == 0;
      Turn(blockIdx.x == 0 && hears);
    } else {
      __nanosleep(500);
      Knows(LoadRelaxedSystem(params_.device), 0);
    }
  }
  passes_ = true;
  End();
}

}  // namespace cupola::runtime
