// The scheduler warp of an MTB: pulls task records from the MTB's column in host memory and hands
// their warps to executor warps. Pagoda, sections 4.3 and 5.1, algorithms 1 and 2;
// docs/narrow-tasks.md. Device code.
#pragma once

#include "device/runtime/mtb.cuh"

namespace cupola::runtime {

/// For so long after the host was told that the kernel leaves a record may still come: longer than
/// a store waits in a processor's buffer.
inline constexpr uint32_t kLastLookNs = 20'000;

/// A scheduler warp. All its lanes call each function together, and members are the same in all:
/// what it decides by (words that others write, the time) is read by lane 0 for all, or lanes would
/// part.
class Scheduler {
 public:
  __device__ Scheduler(const MasterParams& params)
      : params_(params),
        column_(params.columns + blockIdx.x),
        lane_(threadIdx.x % 32),
        executors_(blockDim.x / 32 - 1),
        head_(params.heads[blockIdx.x]) {}

  /// Until the MasterKernel leaves and everything that was there has run.
  __device__ void Run();

 private:
  template <int kLoads>
  __device__ uint32_t Turn();
  template <int kLoads>
  __device__ void Ask(uint4 (&chunks)[kLoads]) const;
  template <int kLoads>
  __device__ uint32_t Take(const uint4 (&chunks)[kLoads]);
  __device__ void Start(uint32_t position);
  __device__ void Hand(uint32_t row, uint32_t first, uint32_t warps, uint32_t warps_of_block,
                       uint32_t slot);
  __device__ uint32_t TakeSlot(bool wants_barrier, uint32_t units);
  __device__ void TakeBack();
  __device__ uint32_t FreeExecutors() const;
  __device__ bool AllFree() const { return FreeExecutors() == (1u << executors_) - 1; }
  __device__ void SetBusy(bool busy);
  __device__ void StartAll(uint32_t count);
  __device__ bool IsIdle();
  __device__ void Hear(const uint2& host, bool is_idle);
  __device__ bool IsToLeave() const { return control_.y == params_.epoch; }
  __device__ void End();

  const MasterParams& params_;
  const TaskColumn* column_;
  uint32_t lane_, executors_, head_;
  bool busy_ = false;
  uint3 control_{};  ///< DeviceControl::awake, leave, busy, as last read
  // What blocks may have, a bit each: slots, named barriers 1 to 15 (0 is __syncthreads), units of
  // the arena.
  uint32_t free_slots_ = ~0u, free_barriers_ = 0xfffe;
  uint64_t free_units_ = ~0ull;
  uint64_t idle_since_ = 0;
};

/// Asks for the next 4 * kLoads records, eight lanes each.
template <int kLoads>
__device__ void Scheduler::Ask(uint4 (&chunks)[kLoads]) const {
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint32_t row = (head_ + 4 * i + lane_ / 8) % kTaskRows;
    chunks[i] = LoadChunk(&column_->rows[row].chunks[lane_ % 8]);
  }
}

/// Of what was asked for, takes the records that are complete into shared memory; how many.
template <int kLoads>
__device__ uint32_t Scheduler::Take(const uint4 (&chunks)[kLoads]) {
  uint32_t ready = 0;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint32_t position = head_ + 4 * i + lane_ / 8;
    const uint32_t first_word = __shfl_sync(kAllLanes, chunks[i].x, lane_ & ~7u);
    const bool complete =
        chunks[i].w == position + 1 || (lane_ % 8 != 0 && lane_ % 8 >= ((first_word >> 16) & 0xff));
    const uint32_t lanes = __ballot_sync(kAllLanes, complete);
    uint32_t records = 0;
    while (records < 4 && ((lanes >> (8 * records)) & 0xff) == 0xff) ++records;
    if (lane_ / 8 < records) {
      uint32_t* words = Mtb().records[position % kTaskRows] + (lane_ % 8) * kChunkWords;
      words[0] = chunks[i].x;
      words[1] = chunks[i].y;
      words[2] = chunks[i].z;
    }
    ready += records;
    if (records < 4) break;
  }
  __syncwarp();
  return ready;
}

__device__ inline uint32_t Scheduler::FreeExecutors() const {
  const bool is_free = lane_ < executors_ && LoadAcquire(&Mtb().warps[lane_].job) == kNoJob;
  return __ballot_sync(kAllLanes, is_free);
}

/// Hands warps [first, first + warps) of a task, all of one block if it has a slot, to executors as
/// they become free: each lane looks after one (pSched, the paper's algorithm 2).
__device__ inline void Scheduler::Hand(uint32_t row, uint32_t first, uint32_t warps,
                                       uint32_t warps_of_block, uint32_t slot) {
  uint32_t handed = 0;
  while (handed < warps) {
    const uint32_t free = FreeExecutors();
    const uint32_t rank = __popc(free & ((1u << lane_) - 1));
    if (((free >> lane_) & 1) != 0 && handed + rank < warps) {
      const uint32_t warp = first + handed + rank;
      WarpEntry& entry = Mtb().warps[lane_];
      entry.block = warp / warps_of_block;
      entry.first_thread = (warp % warps_of_block) * 32;
      entry.slot = slot;
      StoreRelease(&entry.job, row + 2);
      Wake(&Mtb().wake[lane_]);
    }
    handed += min(static_cast<uint32_t>(__popc(free)), warps - handed);
  }
}

/// Takes back what blocks had that have ended: the paper's deferred frees, since only the scheduler
/// gives and takes.
__device__ inline void Scheduler::TakeBack() {
  uint32_t ended = 0;
  if (lane_ == 0) ended = Exchange(&Mtb().ended_blocks, 0);
  ended = __shfl_sync(kAllLanes, ended, 0);
  free_slots_ |= ended;
  for (; ended != 0; ended &= ended - 1) {
    const BlockEntry& block = Mtb().blocks[__ffs(ended) - 1];
    if (block.barrier != 0) free_barriers_ |= 1u << block.barrier;
    free_units_ |= UnitMask(block.units) << block.first_unit;
  }
  __syncwarp();  // all have read what lane 0 may write for the next block
}

/// A slot for a block, with a named barrier and `units` of the arena (a power of two, or 0) as far
/// as it wants them; waits until there are. Units are given as by a buddy allocator (section 5.1):
/// a run of 2^k begins at a multiple of 2^k, so that what is free never falls into pieces that
/// could be joined.
__device__ inline uint32_t Scheduler::TakeSlot(bool wants_barrier, uint32_t units) {
  uint64_t runs = 0;
  while (true) {
    runs = free_units_;
    for (uint32_t half = 1; half < units; half *= 2) runs &= runs >> half;
    runs &= RunStarts(units);
    if (free_slots_ != 0 && (!wants_barrier || free_barriers_ != 0) && (units == 0 || runs != 0))
      break;
    TakeBack();
  }
  const uint32_t slot = __ffs(free_slots_) - 1;
  const uint32_t barrier = wants_barrier ? __ffs(free_barriers_) - 1 : 0;
  const uint32_t first_unit = units == 0 ? 0 : __ffsll(static_cast<long long>(runs)) - 1;
  free_slots_ &= ~(1u << slot);
  free_barriers_ &= ~(wants_barrier ? 1u << barrier : 0u);
  free_units_ &= ~(UnitMask(units) << first_unit);
  if (lane_ == 0) {
    BlockEntry& block = Mtb().blocks[slot];
    block.barrier = barrier;
    block.first_unit = first_unit;
    block.units = units;
  }
  return slot;
}

/// Starts the task of a position, whose record is there.
__device__ inline void Scheduler::Start(uint32_t position) {
  MtbState& mtb = Mtb();
  const uint32_t row = position % kTaskRows;
  const auto& header = *reinterpret_cast<const TaskHeader*>(mtb.records[row]);
  const uint32_t warps = header.warps, blocks = header.blocks;
  const bool wants_barrier = header.barrier != 0;
  const uint32_t units = UnitsFor(header.shared_bytes, params_.unit_bytes);
  if (lane_ == 0) {
    mtb.sequence[row] = position + 1;
    mtb.warps_left[row] = warps * blocks;
  }
  __syncwarp();
  if (!wants_barrier && units == 0) {
    Hand(row, 0, warps * blocks, warps, kNoSlot);
    return;
  }
  for (uint32_t block = 0; block < blocks; ++block) {
    const uint32_t slot = TakeSlot(wants_barrier, units);
    if (lane_ == 0) mtb.blocks[slot].warps_left = warps;
    __syncwarp();
    Hand(row, block * warps, warps, warps, slot);
  }
}

__device__ inline void Scheduler::SetBusy(bool busy) {
  if (busy == busy_) return;
  busy_ = busy;
  if (lane_ == 0) atomicAdd(&params_.device->busy, busy ? 1u : ~0u);
}

/// Column 0: whether no column has had anything to do for so long that the kernel is to leave.
__device__ inline bool Scheduler::IsIdle() {
  const uint64_t now = WarpTimeNs();
  if (busy_ || control_.z != 0) idle_since_ = now;
  return now - idle_since_ >= params_.idle_ns;
}

/// Lane 0 of column 0 tells all what the host has said. Where the kernel is to leave the host is
/// told first, once, that it takes no more tasks, then the other columns.
__device__ inline void Scheduler::Hear(const uint2& host, bool is_idle) {
  if (host.x != control_.x) StoreRelaxed(&params_.device->awake, host.x);
  if (host.y != params_.epoch && !is_idle) return;
  StoreRelaxed(&params_.state->running, 0);
  FenceForHost();
  StoreRelaxed(&params_.device->leave, params_.epoch);
}

/// The host has been told that the kernel takes no more tasks. Runs those that it wrote before it
/// knew (docs/narrow-tasks.md, "Leaving"), then lets the executors go.
__device__ inline void Scheduler::End() {
  const uint64_t since = WarpTimeNs();
  while (WarpTimeNs() - since < kLastLookNs) {
    uint4 chunks[1];
    Ask(chunks);
    StartAll(Take(chunks));
  }
  while (!AllFree()) {
  }
  SetBusy(false);
  if (lane_ < executors_) {
    StoreRelease(&Mtb().warps[lane_].job, kQuitJob);
    Wake(&Mtb().wake[lane_]);
  }
  if (lane_ == 0) params_.heads[blockIdx.x] = head_;
}

__device__ inline void Scheduler::StartAll(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) Start(head_ + i);
  head_ += count;
}

/// Pulls what there is and starts it. How many tasks there were.
template <int kLoads>
__device__ uint32_t Scheduler::Turn() {
  uint4 chunks[kLoads];
  Ask(chunks);
  control_ = LoadDeviceControl(params_.device);
  const uint32_t ready = Take(chunks);
  if (ready > 0) SetBusy(true);
  StartAll(ready);
  if (ready == 0 && busy_ && AllFree()) SetBusy(false);
  if (blockIdx.x == 0 && !IsToLeave()) {
    const bool is_idle = IsIdle();
    if (lane_ == 0) Hear(LoadHostControl(params_.host), is_idle);
  }
  return ready;
}

__device__ inline void Scheduler::Run() {
  idle_since_ = WarpTimeNs();
  control_ = LoadDeviceControl(params_.device);
  for (uint32_t ready = 0; !IsToLeave();) {
    if (blockIdx.x == 0 || busy_ || blockIdx.x < control_.x) {
      ready = ready >= 4 ? Turn<2>() : Turn<1>();
    } else {
      __nanosleep(500);
      control_ = LoadDeviceControl(params_.device);
    }
  }
  End();
}

}  // namespace cupola::runtime
