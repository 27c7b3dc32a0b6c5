// The scheduler warp of an MTB: pulls task records from the MTB's column in host memory and hands
// their warps to executor warps. Pagoda, sections 4.3 and 5.1, algorithms 1 and 2;
// docs/narrow-tasks.md. Device code.
#pragma once

#include "device/runtime/mtb.cuh"

namespace cupola::runtime {

/// For so long after the host was told that the kernel leaves a record may still come: longer than
/// a store waits in a processor's buffer.
inline constexpr uint32_t kLastLookNs = 20'000;

/// Records that a warp asks for at once, a lane for each chunk.
inline constexpr uint32_t kRecordsOfALook = 32 / kRecordChunks;

/// After so many looks at the column's tail that found nothing the next record itself is looked at,
/// which saves a task that comes alone a way to the host and back.
inline constexpr uint32_t kQuietLooks = 4;

/// Columns but the first look at their tail only so often: looks of many slow the host down, where
/// the lines are that it writes next.
inline constexpr uint32_t kPauseNs = 1'000;

/// While tasks wait for executors only column 0 looks at host memory, and only so often: a look
/// takes longer than an executor should be left without work.
inline constexpr uint32_t kTurnsOfALook = 128;

/// While tasks wait for others, which is seen in shared memory alone.
inline constexpr uint32_t kTurnsOfAWaitingLook = 16;

/// A scheduler warp. All its lanes call each function together, and members are the same in all but
/// for those of which it is said: what it decides by (words that others write, the time) is read by
/// lane 0 for all, or lanes would part. Nothing in it waits: what cannot go on is tried again in
/// the next turn, so that a task holds up none that could run.
class Scheduler {
 public:
  __device__ Scheduler(const MasterParams& params)
      : params_(params),
        lane_(threadIdx.x % 32),
        executors_(blockDim.x / 32 - 1),
        head_(params.heads[blockIdx.x]) {}

  /// Until the MasterKernel leaves and everything that was there has run.
  __device__ void Run();

 private:
  // Of a lane: what is known of rows lane and lane + 32, a bit each.
  static constexpr uint32_t kReady = 1, kWaiting = 4;
  // Lanes that read other words than the column's, in a look.
  static constexpr uint32_t kDeviceLane = 30, kHostLane = 31;

  __device__ void Turn(bool hears);
  __device__ uint4 Look(bool hears) const;
  __device__ bool Pull(uint4 seen);
  __device__ uint32_t Take(const uint4& chunk, uint32_t asked);
  __device__ void Promote();
  __device__ static bool IsMet(uint32_t row);
  __device__ bool HandOut();
  __device__ bool FindWork();
  __device__ bool NextTask();
  __device__ void Hand(uint32_t free);
  __device__ bool TakeSlot(const TaskHeader& header);
  __device__ void TakeBack();
  __device__ uint32_t FreeExecutors() const;
  __device__ bool AllFree() const { return FreeExecutors() == (1u << executors_) - 1; }
  __device__ bool HasWork() const {
    return left_ != 0 || blocks_left_ != 0 || __any_sync(kAllLanes, rows_ != 0);
  }
  __device__ void SetBusy(bool busy);
  __device__ bool Knows(const uint4& device, uint32_t lane);
  __device__ void Hear(const HostControl& host, const DeviceControl& device);
  __device__ void End();
  __device__ static const TaskHeader& Header(uint32_t row) {
    return *reinterpret_cast<const TaskHeader*>(Mtb().records[row]);
  }
  __device__ static uint32_t Warps(const TaskHeader& header) { return (header.threads + 31u) / 32; }

  const MasterParams& params_;
  const uint32_t lane_, executors_;
  uint32_t head_;      ///< position of the next record
  uint32_t rows_ = 0;  ///< of this lane: kReady, kWaiting, each for two rows
  // The task that is being handed out: its row, the next of its warps, how many of them may be
  // handed to executors now, blocks of it that have not got what they need, the slot of the last.
  uint32_t row_ = 0, next_ = 0, left_ = 0, blocks_left_ = 0, slot_ = kNoSlot;
  bool busy_ = false, awake_ = false, leaves_ = false;
  bool waits_ = false;            ///< a task waits for another
  uint32_t quiet_ = kQuietLooks;  ///< looks at the tail since something was there
};

/// Reads what it goes by, at once: lanes 0 to 7 the next record or, while tasks come, lane 0 the
/// column's tail; one lane the device's words; one, where it is to, the host's.
__device__ inline uint4 Scheduler::Look(bool hears) const {
  const TaskColumn* column = params_.columns + blockIdx.x;
  const void* at = nullptr;
  if (quiet_ < kQuietLooks) {
    if (lane_ == 0) at = &column->tail;
  } else if (lane_ < kRecordChunks) {
    at = &column->rows[head_ % kTaskRows].chunks[lane_];
  }
  if (lane_ == kDeviceLane) at = params_.device;
  if (hears && lane_ == kHostLane) at = params_.host;
  return at != nullptr ? LoadAcquireSystem(at) : uint4{};
}

/// Takes the records that have come, if any; `seen` is what a look saw. Behind the tail eight lanes
/// read a record, every lane a chunk.
__device__ inline bool Scheduler::Pull(uint4 seen) {
  uint32_t asked = 1;
  if (quiet_ < kQuietLooks) {
    const auto come = static_cast<int32_t>(__shfl_sync(kAllLanes, seen.x, 0) - head_);
    ++quiet_;
    if (come <= 0) {
      if (blockIdx.x != 0 && !waits_) __nanosleep(kPauseNs);
      return false;
    }
    asked = min(static_cast<uint32_t>(come), kRecordsOfALook);
    if (lane_ / kRecordChunks < asked) {
      const uint32_t row = (head_ + lane_ / kRecordChunks) % kTaskRows;
      const TaskColumn* column = params_.columns + blockIdx.x;
      seen = LoadAcquireSystem(&column->rows[row].chunks[lane_ % kRecordChunks]);
    }
  }
  if (Take(seen, asked) == 0) return false;
  quiet_ = 0;
  return true;
}

/// Of the records that were asked for, takes those that are complete into shared memory; how many.
__device__ inline uint32_t Scheduler::Take(const uint4& chunk, uint32_t asked) {
  const uint32_t position = head_ + lane_ / kRecordChunks, part = lane_ % kRecordChunks;
  const uint32_t first_word = __shfl_sync(kAllLanes, chunk.x, lane_ & ~(kRecordChunks - 1));
  const bool complete =
      chunk.w == position + 1 || (part != 0 && part >= ((first_word >> 16) & 0xff));
  const uint32_t lanes = __ballot_sync(kAllLanes, complete);
  uint32_t records = 0;
  while (records < asked && ((lanes >> (8 * records)) & 0xff) == 0xff) ++records;
  MtbState& mtb = Mtb();
  if (lane_ / kRecordChunks < records) {
    const uint32_t row = position % kTaskRows;
    uint32_t* words = mtb.records[row] + part * kChunkWords;
    words[0] = chunk.x;
    words[1] = chunk.y;
    words[2] = chunk.z;
    if (part == 0) {  // words 1 and 2: threads, after; blocks
      mtb.sequence[row] = position + 1;
      StoreShared(&mtb.warps_left[row], ((chunk.y & 0xffff) + 31) / 32 * chunk.z);
    }
  }
  for (uint32_t i = 0; i < records; ++i, ++head_) {
    const uint32_t row = head_ % kTaskRows;
    const uint32_t after = __shfl_sync(kAllLanes, chunk.y, i * kRecordChunks) >> 16;
    if (lane_ == row % 32) rows_ |= (after != 0 ? kWaiting : kReady) << (row / 32);
  }
  __syncwarp();
  return records;
}

/// Whether the task has ended that the one in a row waits for. Where another lies in its row now it
/// has: a row is written when it has run.
__device__ inline bool Scheduler::IsMet(uint32_t row) {
  MtbState& mtb = Mtb();
  const uint32_t before = mtb.sequence[row] - Header(row).after;
  const uint32_t other = (before - 1) % kTaskRows;
  return mtb.sequence[other] != before || LoadAcquire(&mtb.warps_left[other]) == 0;
}

/// Each lane looks after two rows: those whose predecessors have ended are ready.
__device__ inline void Scheduler::Promote() {
  waits_ = __any_sync(kAllLanes, rows_ >= kWaiting);
  if (!waits_) return;
  for (uint32_t half = 0; half < 2; ++half) {
    if ((rows_ & (kWaiting << half)) != 0 && IsMet(lane_ + 32 * half)) {
      rows_ ^= (kWaiting | kReady) << half;
    }
  }
  __syncwarp();  // what one lane has seen to end has ended for those that hand out what follows
}

__device__ inline uint32_t Scheduler::FreeExecutors() const {
  const bool is_free = lane_ < executors_ && LoadAcquire(&Mtb().warps[lane_].job) == kNoJob;
  return __ballot_sync(kAllLanes, is_free);
}

/// Hands warps to executors that are free: each lane looks after one (pSched, the paper's algorithm
/// 2).
__device__ inline void Scheduler::Hand(uint32_t free) {
  const uint32_t rank = __popc(free & ((1u << lane_) - 1));
  const bool is_handed = ((free >> lane_) & 1) != 0 && rank < left_;
  if (is_handed) {
    const uint32_t warps = Warps(Header(row_));
    uint32_t block = 0, warp = next_ + rank;
    if (warp >= warps) {
      block = warp / warps;
      warp -= block * warps;
    }
    WarpEntry& entry = Mtb().warps[lane_];
    entry.block = block;
    entry.first_thread = warp * 32;
    entry.slot = slot_;
    StoreShared(&entry.job, row_ + 2);
  }
  Wake(__ballot_sync(kAllLanes, is_handed));
  const uint32_t handed = min(static_cast<uint32_t>(__popc(free)), left_);
  next_ += handed;
  left_ -= handed;
}

/// Takes back what blocks had that have ended: the paper's deferred frees, since only the scheduler
/// gives and takes. Lane 0.
__device__ inline void Scheduler::TakeBack() {
  MtbState& mtb = Mtb();
  uint32_t ended = Exchange(&mtb.ended_blocks, 0);
  mtb.room.slots |= ended;
  for (; ended != 0; ended &= ended - 1) {
    BlockEntry& block = mtb.blocks[__ffs(ended) - 1];
    if (block.meets != 0) EndBarrier(&block.meet);
    mtb.room.units |= UnitMask(block.units) << block.first_unit;
  }
}

/// A slot for a block, with a barrier and a power of two of units of the arena as far as it wants
/// them; false where there is none now. Units are given as by a buddy allocator (section 5.1): a
/// run of 2^k begins at a multiple of 2^k, so that what is free never falls into pieces that could
/// be joined.
__device__ inline bool Scheduler::TakeSlot(const TaskHeader& header) {
  uint32_t slot = kNoSlot;
  if (lane_ == 0) {
    const uint32_t units = UnitsFor(header.shared_bytes, params_.unit_bytes);
    FreeRoom& room = Mtb().room;
    for (int tries = 0; tries < 2 && slot == kNoSlot; ++tries) {
      uint64_t runs = room.units;
      for (uint32_t half = 1; half < units; half *= 2) runs &= runs >> half;
      runs &= RunStarts(units);
      if (room.slots == 0 || (units != 0 && runs == 0)) {
        TakeBack();
        continue;
      }
      slot = __ffs(room.slots) - 1;
      const uint32_t first_unit = units == 0 ? 0 : __ffsll(static_cast<long long>(runs)) - 1;
      room.slots &= ~(1u << slot);
      room.units &= ~(UnitMask(units) << first_unit);
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

/// The oldest task that is ready becomes the one that is handed out; false: there is none.
__device__ inline bool Scheduler::NextTask() {
  const uint64_t low = __ballot_sync(kAllLanes, rows_ & kReady),
                 high = __ballot_sync(kAllLanes, rows_ & (kReady << 1)), ready = high << 32 | low;
  if (ready == 0) return false;
  // From the row on that is pulled to next: the oldest is there.
  const uint32_t oldest = head_ % kTaskRows;
  const uint64_t turned = ready >> oldest | ready << (-oldest % kTaskRows);
  row_ = (oldest + __ffsll(static_cast<long long>(turned)) - 1) % kTaskRows;
  if (lane_ == row_ % 32) rows_ ^= kReady << (row_ / 32);
  next_ = 0;
  return true;
}

/// Whether there are warps to be handed out now. Where not, blocks_left_ says whether a block waits
/// for room.
__device__ inline bool Scheduler::FindWork() {
  if (left_ != 0) return true;
  if (blocks_left_ == 0) {
    if (!NextTask()) return false;
    const TaskHeader& header = Header(row_);
    if (header.barrier == 0 && header.shared_bytes == 0) {
      slot_ = kNoSlot;
      left_ = Warps(header) * header.blocks;
      return true;
    }
    blocks_left_ = header.blocks;
  }
  const TaskHeader& header = Header(row_);
  if (!TakeSlot(header)) return false;
  --blocks_left_;
  left_ = Warps(header);
  return true;
}

/// Hands out what can run as far as there is room; false: some of it waits for that.
__device__ inline bool Scheduler::HandOut() {
  Promote();
  while (FindWork()) {
    const uint32_t free = FreeExecutors();
    if (free == 0) return false;
    Hand(free);
  }
  return blocks_left_ == 0;
}

__device__ inline void Scheduler::SetBusy(bool busy) {
  if (busy == busy_) return;
  busy_ = busy;
  if (lane_ == 0) atomicAdd(&params_.device->busy, busy ? 1u : ~0u);
}

/// Lane 0 of column 0 tells all what the host has said. Where the kernel is to leave, as it is when
/// no column has had anything to do for long, the host is told first, once, that it takes no more
/// tasks, then the other columns.
__device__ inline void Scheduler::Hear(const HostControl& host, const DeviceControl& device) {
  const uint64_t now = NowNs();
  if (busy_ || device.busy != 0) Mtb().idle_since = now;
  if (host.awake != device.awake) StoreRelaxed(&params_.device->awake, host.awake);
  if (host.leave != params_.epoch && now - Mtb().idle_since < params_.idle_ns) return;
  StoreRelaxed(&params_.state->running, 0);
  FenceForHost();
  StoreRelaxed(&params_.device->leave, params_.epoch);
}

/// Takes in what the device's words say, which one lane has read; whether the kernel is still to go
/// on.
__device__ inline bool Scheduler::Knows(const uint4& device, uint32_t lane) {
  awake_ = blockIdx.x < __shfl_sync(kAllLanes, device.x, lane);
  leaves_ = __shfl_sync(kAllLanes, device.y, lane) == params_.epoch;
  return !leaves_;
}

/// The host has been told that the kernel takes no more tasks. Runs those that it wrote before it
/// knew (docs/narrow-tasks.md, "Leaving"), then lets the executors go.
__device__ inline void Scheduler::End() {
  const uint64_t since = WarpTimeNs();
  // At least until a look at the records has found nothing, or all that a column can hold has come:
  // the host may rely on what it wrote before it saw that the kernel runs.
  const uint32_t first = head_;
  quiet_ = kQuietLooks;
  for (bool found = true;
       (found && head_ - first < kTaskRows) || WarpTimeNs() - since < kLastLookNs;) {
    found = Pull(Look(false));
    if (found) SetBusy(true);
    HandOut();
  }
  while (HasWork() || !AllFree()) HandOut();
  SetBusy(false);
  if (lane_ < executors_) StoreShared(&Mtb().warps[lane_].job, kQuitJob);
  Wake((1u << executors_) - 1);
  if (lane_ == 0) params_.heads[blockIdx.x] = head_;
}

/// Looks at the column and at what the host and the device say. What has come is handed out before
/// anything else.
__device__ inline void Scheduler::Turn(bool hears) {
  const uint4 seen = Look(hears);
  if (Pull(seen)) {
    HandOut();
    SetBusy(true);
  } else if (busy_ && !HasWork() && AllFree()) {
    SetBusy(false);
  }
  if (Knows(seen, kDeviceLane) && hears) {
    const auto word = [](uint32_t own, uint32_t lane) { return __shfl_sync(kAllLanes, own, lane); };
    const HostControl host{.awake = word(seen.x, kHostLane), .leave = word(seen.y, kHostLane)};
    const DeviceControl device{.awake = word(seen.x, kDeviceLane),
                               .leave = word(seen.y, kDeviceLane),
                               .busy = word(seen.z, kDeviceLane),
                               .reserved = 0};
    if (lane_ == 0) Hear(host, device);
  }
  __syncwarp();
}

__device__ inline void Scheduler::Run() {
  __syncwarp();  // all have read head_, which lane 0 writes
  if (lane_ == 0) Mtb().idle_since = NowNs();
  Knows(LoadDeviceControl(params_.device), 0);
  for (uint32_t turn = 0; !leaves_; ++turn) {
    const bool all_out = HandOut();
    if (!all_out && (blockIdx.x != 0 || turn % kTurnsOfALook != 0)) continue;
    if (all_out && waits_ && turn % kTurnsOfAWaitingLook != 0) continue;
    if (blockIdx.x == 0 || busy_ || awake_) {
      Turn(blockIdx.x == 0);
    } else {
      __nanosleep(500);
      Knows(LoadDeviceControl(params_.device), 0);
    }
  }
  End();
}

}  // namespace cupola::runtime
