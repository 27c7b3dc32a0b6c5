// The shared memory of an MTB, a block of the MasterKernel, and what its warps do with it. Pagoda,
// table 2 and section 5; docs/narrow-tasks.md. Device code.
#pragma once

#include "device/runtime/task_record.h"

namespace cupola::runtime {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNoJob = 0, kQuitJob = 1;

/// WarpTable of the paper: what an executor warp is to do. Written by who has put a row into `job`
/// in place of kNoJob; the executor writes kNoJob when it has ended, and nobody anything else.
struct WarpEntry {
  uint32_t job;           ///< kNoJob, kQuitJob, or 2 + row
  uint32_t block;         ///< of the task
  uint32_t first_thread;  ///< of the block
  uint32_t slot;          ///< of the block in MtbState::blocks; kNoSlot: it needs none
};

/// A block that has something to give back when its last warp has ended.
struct BlockEntry {
  uint64_t meet;  ///< mbarrier of the block's threads, if it `meets`
  uint32_t warps_left;
  uint32_t meets;
  uint32_t first_unit;  ///< of the arena
  uint32_t units;
};

inline constexpr uint32_t kBlockSlots = 32;
inline constexpr uint32_t kNoSlot = kBlockSlots;

/// What blocks may have, a bit each, of the scheduler alone. In shared memory, since registers are
/// scarce.
struct FreeRoom {
  uint64_t units;  ///< of the arena
  uint32_t slots;  ///< of MtbState::blocks
};

/// Executors below this sleep at a named barrier each, all that there are but the block's own: one
/// that waits there is woken at once, at an mbarrier the later the more wait [measured:
/// docs/results/narrow-tasks.md].
inline constexpr uint32_t kNamedExecutors = 15;

/// MtbState::warps_left: bits of the count. Above them lies the follower, 1 + the row of the task
/// that the last warp lets start, or 0, so that both change at once.
inline constexpr uint32_t kFollowerShift = 25, kCountMask = (1u << kFollowerShift) - 1;
static_assert(kMostTaskBlocks * uint64_t{kMostExecutors} <= kCountMask);
static_assert(kTaskRows < 1u << (32 - kFollowerShift));

/// MtbState::ready: nothing; somebody is at it; the executors that were taken for it, a bit each,
/// whom its start only has to wake; it is to start, with what is ready or without.
inline constexpr uint32_t kNothingReady = 0, kMakingReady = 1u << 31, kStarts = 3u << 30;

struct MtbState {
  uint64_t wake[kMostExecutors];  ///< mbarriers of one arrival, of those from kNamedExecutors on
  WarpEntry warps[kMostExecutors];
  BlockEntry blocks[kBlockSlots];
  FreeRoom room;
  uint64_t idle_since;                ///< column 0 had nothing to do; or that this one leaves
  uint32_t sequence[kTaskRows];       ///< of the task that was last pulled there; 0: none
  uint32_t warps_left[kTaskRows];     ///< of that task that have not ended, and its follower
  uint32_t released[kTaskRows / 32];  ///< rows of followers which the scheduler is to hand out
  uint32_t ready[kTaskRows];          ///< of a follower: what is ready for it (kNothingReady, ...)
  uint32_t begun[kTaskRows];          ///< of a task that was taken again: BegunTo; else 0
  uint32_t crowded;                   ///< tasks wait for executors, which followers leave to them
  uint32_t ended;                     ///< position behind as many tasks of the column as have ended
  uint32_t ended_blocks;  ///< slots whose blocks have ended, for the scheduler to take back
  alignas(16) uint32_t records[kTaskRows][kRecordWords];
};

__device__ inline MtbState& Mtb() {
  __shared__ MtbState state;
  return state;
}

/// The arena: shared memory that blocks of tasks are given, kArenaUnits of
/// MasterParams::unit_bytes.
__device__ inline char* Arena() {
  extern __shared__ __align__(512) char cupola_arena[];
  return cupola_arena;
}

/// Of the task in a row.
__device__ inline const TaskHeader& Header(uint32_t row) {
  return *reinterpret_cast<const TaskHeader*>(Mtb().records[row]);
}
/// Keeps a chunk of a record, as it was read, in a row.
__device__ inline void KeepChunk(uint32_t row, uint32_t part, const uint4& chunk) {
  uint32_t* const words = Mtb().records[row] + part * kChunkWords;
  words[0] = chunk.x;
  words[1] = chunk.y;
  words[2] = chunk.z;
}
/// Of a block.
__device__ inline uint32_t Warps(const TaskHeader& header) { return (header.threads + 31u) / 32; }
/// Whether a block is given something that it gives back (BlockEntry).
__device__ inline bool NeedsSlot(const TaskHeader& header) {
  return header.barrier != 0 || header.shared_bytes != 0;
}

/// How far a task has begun: the first of its warps that has not.
__device__ inline uint32_t BegunTo(uint32_t block, uint32_t warp) { return block << 5 | warp; }

// Of the executor warp that calls.
__device__ inline WarpEntry& MyWarp() { return Mtb().warps[threadIdx.x / 32 - 1]; }
__device__ inline const TaskHeader& MyHeader() { return Header(MyWarp().job - 2); }
__device__ inline uint32_t BlockThreads() { return MyHeader().threads; }

/// Bits of the first `units`.
__device__ inline uint64_t UnitMask(uint32_t units) {
  return units >= 64 ? ~0ull : (1ull << units) - 1;
}

/// Where runs of 2^k units may begin.
__device__ inline uint64_t RunStarts(uint32_t units) {
  uint64_t starts = 1;
  for (uint32_t apart = kArenaUnits / 2; apart != 0 && apart >= units; apart /= 2) {
    starts |= starts << apart;
  }
  return starts;
}

/// Units that hold so many bytes: a power of two.
__device__ inline uint32_t UnitsFor(uint32_t bytes, uint32_t unit_bytes) {
  uint32_t units = bytes == 0 ? 0 : 1;
  while (units * unit_bytes < bytes) units *= 2;
  return units;
}

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// %globaltimer, in ns.
__device__ inline uint64_t NowNs() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// The same in all lanes of the warp.
__device__ inline uint64_t WarpTimeNs() { return __shfl_sync(kAllLanes, NowNs(), 0); }

/// 16 bytes of a record, or words of either side: what the other wrote or saw before it wrote them
/// is seen behind it. Costs nothing but what this SM's L1 cache holds; but a second one starts only
/// when the first has come, so lanes that read for different ends do so together [measured:
/// docs/results/narrow-tasks.md].
__device__ inline uint4 LoadAcquireSystem(const void* address) {
  uint4 found;
  asm volatile("ld.acquire.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(address)
               : "memory");
  return found;
}

/// The same without order: this SM's L1 cache keeps what it holds.
__device__ inline uint4 LoadRelaxedSystem(const void* address) {
  uint4 found;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(address)
               : "memory");
  return found;
}

/// Behind everything that this thread wrote or saw written, for the host too. Unlike a fence it
/// leaves this SM's L1 cache what it holds.
__device__ inline void StoreRelease(uint32_t* global, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}

__device__ inline void StoreRelaxed(uint32_t* global, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}

/// Everything that this thread wrote or saw written comes before what it writes next, for the host
/// too; and what the host wrote before a word that was read is seen behind it.
__device__ inline void FenceForHost() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/// The same between threads of the MTB. Some 80 ns, more where the SM writes much: the relaxed
/// operations behind one need none of their own.
__device__ inline void FenceForMtb() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

__device__ inline uint32_t LoadAcquire(const uint32_t* shared) {
  uint32_t value;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
               : "=r"(value)
               : "r"(SharedAddress(shared))
               : "memory");
  return value;
}

__device__ inline void StoreShared(uint32_t* shared, uint32_t value) {
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(SharedAddress(shared)), "r"(value)
               : "memory");
}

/// Adds to the word; what was there before. Between FenceForMtb and, of who takes the last one,
/// another fence or a read with acquire: orders what the warps of a task or block wrote.
__device__ inline uint32_t Count(uint32_t* shared, uint32_t change) {
  uint32_t before;
  asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(change)
               : "memory");
  return before;
}
__device__ inline uint32_t CountDown(uint32_t* shared) { return Count(shared, ~0u); }

/// Takes the word and leaves another.
__device__ inline uint32_t Exchange(uint32_t* shared, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.exch.b32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(value)
               : "memory");
  return before;
}

/// Leaves `value` where `expected` is; what was there before, with acquire.
__device__ inline uint32_t CompareAndSwap(uint32_t* shared, uint32_t expected, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(expected), "r"(value)
               : "memory");
  return before;
}

/// Between a fence and what the scheduler reads with acquire.
__device__ inline void MarkBits(uint32_t* shared, uint32_t bits) {
  asm volatile("red.relaxed.cta.shared.or.b32 [%0], %1;" ::"r"(SharedAddress(shared)), "r"(bits)
               : "memory");
}

/// Wakes executors, a bit each: what the lane of the same number wrote before is seen by each. All
/// lanes call it [named barriers: PTX ISA 9.7.13.1, which counts by warps].
__device__ inline void Wake(uint32_t executors) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane >= kNamedExecutors && ((executors >> lane) & 1) != 0) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(
                     SharedAddress(&Mtb().wake[lane]))
                 : "memory");
  }
  __syncwarp();
  for (uint32_t named = executors & ((1u << kNamedExecutors) - 1); named != 0; named &= named - 1) {
    asm volatile("barrier.cta.arrive.aligned %0, 64;" ::"r"(__ffs(named)) : "memory");
  }
}

/// Sleeps until the phase of this parity has ended, or for this many ns at a time. Without the hint
/// warps look again so often that 31 of them slow each other, and the scheduler, by microseconds
/// [measured: docs/results/narrow-tasks.md; PTX ISA 9.7.13.15.16].
inline constexpr uint32_t kSleepNs = 1'000'000;
__device__ inline void AwaitPhase(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 ended, [%0], %1, %2;\n"
      "@!ended bra again;\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity), "r"(kSleepNs)
      : "memory");
}

/// Sleeps until this executor is woken; all lanes call it.
__device__ inline void AwaitWake(uint32_t executor, uint32_t parity) {
  if (executor < kNamedExecutors) {
    asm volatile("barrier.cta.sync.aligned %0, 64;" ::"r"(executor + 1) : "memory");
  } else {
    if (threadIdx.x % 32 == 0) AwaitPhase(&Mtb().wake[executor], parity);
    __syncwarp();
  }
}

/// A warp of a task.
struct WarpPlace {
  uint32_t block = 0, warp = 0;
  /// So many warps further, in blocks of `warps`. Few: counts, since division is by floating point,
  /// and those of a module are counted (build/task_build.cpp).
  __device__ void Advance(uint32_t count, uint32_t warps) {
    for (warp += count; warp >= warps; warp -= warps) ++block;
  }
};

/// Whether a free executor, the lane's, is one of those that a task of so many warps takes. An SM
/// has four sub-partitions, of which each runs the warps of one number modulo 4: of four warps each
/// gets one of its own, where it has a free one; more begin where four in a row are free.
__device__ inline bool IsChosen(uint32_t free, uint32_t lane, uint32_t warps) {
  constexpr uint32_t kSubPartitions = 4, kFirsts = 0x11111111;
  const uint32_t rows = free & free >> 1 & free >> 2 & free >> 3 & kFirsts;
  const uint32_t before = free & ((1u << lane) - 1);
  if (warps == kSubPartitions) {
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < kSubPartitions; ++i) {
      const uint32_t own = free & (kFirsts << i);
      chosen |= own & -own;
    }
    if (__popc(chosen) == kSubPartitions) return ((chosen >> lane) & 1) != 0;
  }
  const uint32_t from = warps <= kSubPartitions ? ~0u : ~((rows & -rows) - 1);
  const uint32_t place =
      ((from >> lane) & 1) != 0 ? __popc(before & from) : __popc(before) + __popc(free & from);
  return place < warps;
}

/// Executors that were taken are free again. With release: who takes them next writes what was
/// read.
__device__ inline void GiveBackExecutors(uint32_t taken) {
  const uint32_t lane = threadIdx.x % 32;
  if (((taken >> lane) & 1) != 0) (void)Exchange(&Mtb().warps[lane].job, kNoJob);
}

/// Takes executors that are free for warps of a task, `least` to `most` of them or none, from
/// `place` on, while `spared` stay free: each lane looks after an executor (pSched, the paper's
/// algorithm 2). All lanes of the scheduler or of an executor call it; a bit for each that was
/// taken, and is to be woken or given back.
__device__ inline uint32_t TakeExecutors(uint32_t row, uint32_t slot, WarpPlace place,
                                         uint32_t least, uint32_t most, uint32_t spared = 0) {
  const uint32_t lane = threadIdx.x % 32, lower = (1u << lane) - 1;
  WarpEntry& entry = Mtb().warps[lane];
  const bool is_free = lane < blockDim.x / 32 - 1 && LoadAcquire(&entry.job) == kNoJob;
  const uint32_t free = __ballot_sync(kAllLanes, is_free);
  if (__popc(free) < least + spared) return 0;
  const bool is_taken = is_free && IsChosen(free, lane, most) &&
                        CompareAndSwap(&entry.job, kNoJob, row + 2) == kNoJob;
  const uint32_t taken = __ballot_sync(kAllLanes, is_taken);
  if (__popc(taken) < least) {  // others were quicker
    GiveBackExecutors(taken);
    return 0;
  }
  if (is_taken) {
    place.Advance(__popc(taken & lower), Warps(Header(row)));
    entry.block = place.block;
    entry.first_thread = place.warp * 32;
    entry.slot = slot;
  }
  __syncwarp();  // behind what all lanes have read of the record
  return taken;
}

/// Hands warps of a task to executors that are free, as TakeExecutors says; how many were handed.
__device__ inline uint32_t HandWarps(uint32_t row, uint32_t slot, WarpPlace place, uint32_t least,
                                     uint32_t most) {
  const uint32_t taken = TakeExecutors(row, slot, place, least, most);
  if (taken != 0) Wake(taken);
  return __popc(taken);
}

/// A barrier for so many threads. What it was before is no barrier (EndBarrier).
__device__ inline void BeginBarrier(uint64_t* barrier, uint32_t threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(threads)
               : "memory");
}
__device__ inline void EndBarrier(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}

/// All threads of the block that have not ended wait for each other; one that does not go on has
/// ended for the barrier, and does not wait. Not a named barrier: that one waits for all threads of
/// the caller's warp [PTX ISA 9.7.13.1], and those that have returned, and lanes without a thread,
/// may be held where compiled code brings a warp together again. Threads that come together arrive
/// by one of them.
__device__ inline void MeetBlock(uint32_t slot, bool goes_on) {
  const uint32_t barrier = SharedAddress(&Mtb().blocks[slot].meet);
  const uint32_t together = __activemask(), count = __popc(together);
  const int first = __ffs(together) - 1;
  __syncwarp(together);
  uint64_t phase = 0;
  if (static_cast<int>(threadIdx.x % 32) == first) {
    if (goes_on) {
      asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], %2;"
                   : "=l"(phase)
                   : "r"(barrier), "r"(count)
                   : "memory");
    } else {
      asm volatile("mbarrier.arrive_drop.release.cta.shared::cta.b64 %0, [%1], %2;"
                   : "=l"(phase)
                   : "r"(barrier), "r"(count)
                   : "memory");
    }
  }
  if (!goes_on) return;
  phase = __shfl_sync(together, phase, first);
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.acquire.cta.shared::cta.b64 ended, [%0], %1, %2;\n"
      "@!ended bra again;\n"
      "}" ::"r"(barrier),
      "l"(phase), "r"(kSleepNs)
      : "memory");
  __syncwarp(together);
}

/// A warp of a task: its body, for the lanes that the block has threads for. `Bodies::Run(body,
/// arguments)` is called by these only.
template <class Bodies>
__device__ void RunWarp(const WarpEntry& warp, uint32_t row) {
  const TaskHeader& header = Header(row);
  if (warp.first_thread + threadIdx.x % 32 < header.threads) {
    Bodies::Run(header.body, reinterpret_cast<const char*>(Mtb().records[row] + 4));
    if (header.barrier == kMeets) MeetBlock(warp.slot, false);
  }
  __syncwarp();
}

}  // namespace cupola::runtime
