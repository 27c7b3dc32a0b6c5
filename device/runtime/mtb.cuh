// The shared memory of an MTB, a block of the MasterKernel, and the operations that its warps do on
// it. Pagoda, table 2 and section 5; docs/masterkernel.md. Device code. The scheduler warp and the
// executor warps of one MTB use it.
#pragma once

#include "device/runtime/task_record.h"

namespace cupola::runtime {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNoJob = 0, kQuitJob = 1;  ///< WarpEntry::job besides rows

/// What an executor warp is to do; the paper's WarpTable. The warp that has replaced kNoJob in
/// `job` by a row writes the other members. The executor writes kNoJob into `job` when it has
/// ended, and nothing else.
struct WarpEntry {
  uint32_t job;           ///< kNoJob, kQuitJob, or 2 + row
  uint32_t block;         ///< index of the block in the task
  uint32_t first_thread;  ///< index in the block of the warp's first thread
  uint32_t slot;          ///< slot of the block in MtbState::blocks; kNoSlot: it needs none
};

/// A block with resources that it gives back when its last warp has ended.
struct BlockEntry {
  uint64_t meet;        ///< mbarrier of the block's threads, if `meets`
  uint32_t warps_left;  ///< warps of the block that have not ended
  uint32_t meets;       ///< TaskHeader::barrier
  uint32_t first_unit;  ///< the block's first unit of the arena
  uint32_t units;       ///< number of its units
};

inline constexpr uint32_t kBlockSlots = 32;
inline constexpr uint32_t kNoSlot = kBlockSlots;

/// Free resources for blocks, a bit each. Only the scheduler uses it. It lies in shared memory
/// since registers are scarce.
struct FreeRoom {
  uint64_t units;  ///< free units of the arena
  uint32_t slots;  ///< free slots of MtbState::blocks
};

/// Executors with numbers below this sleep at a named barrier each; these are all named barriers
/// besides the block's own. An executor that waits at a named barrier is woken at once; at an
/// mbarrier it is woken the later, the more warps wait [measured: docs/results/narrow-tasks.md].
inline constexpr uint32_t kNamedExecutors = 15;  // plant: NamedExecutorsOnTheSteppedDevice

/// MtbState::warps_left: the lower bits hold the count. The bits above hold the follower: 1 + the
/// row of the task that the last warp is to start, or 0. So both change in one access.
inline constexpr uint32_t kFollowerShift = 25, kCountMask = (1u << kFollowerShift) - 1;
static_assert(kMostTaskBlocks * uint64_t{kMostExecutors} <= kCountMask);
static_assert(kTaskRows < 1u << (32 - kFollowerShift));

/// Values of MtbState::ready. kNothingReady: nothing is ready for the follower. kMakingReady: a
/// warp is taking executors for it. kStarts: it is to start, with what is ready or without. Any
/// other value: the executors that were taken for it, a bit each; its start only has to wake them.
inline constexpr uint32_t kNothingReady = 0, kMakingReady = 1u << 31, kStarts = 3u << 30;

/// The shared memory of an MTB. RunMtb clears it.
struct MtbState {
  uint64_t wake[kMostExecutors];  ///< mbarriers of one arrival, used from kNamedExecutors on
  WarpEntry warps[kMostExecutors];
  BlockEntry blocks[kBlockSlots];
  FreeRoom room;
  uint64_t idle_since;                ///< ns: last work of column 0, or start of leaving
  uint32_t sequence[kTaskRows];       ///< of the task that was last pulled into the row; 0: none
  uint32_t warps_left[kTaskRows];     ///< warps of that task that have not ended, and its follower
  uint32_t released[kTaskRows / 32];  ///< bits of rows: followers that the scheduler is to hand out
  uint32_t ready[kTaskRows];          ///< for a follower: kNothingReady, kMakingReady, ...
  uint32_t begun[kTaskRows];          ///< BegunTo of a task that was kept and taken again; else 0
  uint32_t crowded;                   ///< 1: tasks wait for executors; followers do not start
  uint32_t ended;                     ///< position behind as many tasks as have ended
  uint32_t ended_blocks;  ///< bits of slots whose blocks have ended; the scheduler takes them back
  alignas(16) uint32_t records[kTaskRows][kRecordWords];
};

__device__ inline MtbState& Mtb() {
  __shared__ MtbState state;
  return state;
}

/// The arena: shared memory for blocks of tasks, kArenaUnits units of MasterParams::unit_bytes
/// bytes.
__device__ inline char* Arena() {
  extern __shared__ __align__(512) char cupola_arena[];
  return cupola_arena;
}

/// The header of the task in a row.
__device__ inline const TaskHeader& Header(uint32_t row) {
  return *reinterpret_cast<const TaskHeader*>(Mtb().records[row]);
}
/// Keeps a chunk of a record, as it was read, in shared memory.
__device__ inline void KeepChunk(uint32_t row, uint32_t part, const uint4& chunk) {
  uint32_t* const words = Mtb().records[row] + part * kChunkWords;
  words[0] = chunk.x;
  words[1] = chunk.y;
  words[2] = chunk.z;
}
/// Number of warps of a block.
__device__ inline uint32_t Warps(const TaskHeader& header) { return (header.threads + 31u) / 32; }
/// Whether a block needs a slot, for resources that it gives back (BlockEntry).
__device__ inline bool NeedsSlot(const TaskHeader& header) {
  return header.barrier != 0 || header.shared_bytes != 0;
}

/// How far a task has begun: block and warp of the first of its warps that has not begun.
__device__ inline uint32_t BegunTo(uint32_t block, uint32_t warp) { return block << 5 | warp; }

// The next three are for the executor warp that calls them.
__device__ inline WarpEntry& MyWarp() { return Mtb().warps[threadIdx.x / 32 - 1]; }
__device__ inline const TaskHeader& MyHeader() { return Header(MyWarp().job - 2); }
__device__ inline uint32_t BlockThreads() { return MyHeader().threads; }

/// The lowest `units` bits.
__device__ inline uint64_t UnitMask(uint32_t units) {
  return units >= 64 ? ~0ull : (1ull << units) - 1;
}

/// Bits of the units at which a run of `units` units, a power of two, may begin.
__device__ inline uint64_t RunStarts(uint32_t units) {
  uint64_t starts = 1;
  for (uint32_t apart = kArenaUnits / 2; apart != 0 && apart >= units; apart /= 2) {
    starts |= starts << apart;
  }
  return starts;
}

/// Number of units that hold `bytes` bytes: 0 or a power of two.
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

/// Lane 0's time, in all lanes of the warp.
__device__ inline uint64_t WarpTimeNs() { return __shfl_sync(kAllLanes, NowNs(), 0); }

/// Reads 16 bytes of a record, or words of host or device. What the other side wrote or saw before
/// it wrote them is seen after the read. The acquire costs nothing except that it empties this SM's
/// L1 cache. But a second acquire starts only when the first has come back, so lanes that read for
/// different purposes do so together [measured: docs/results/narrow-tasks.md].
__device__ inline uint4 LoadAcquireSystem(const void* address) {
  uint4 found;
  asm volatile("ld.acquire.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"  // plant: TheHostIsNotSeen
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(address)
               : "memory");
  return found;
}

/// Like LoadAcquireSystem but without order: this SM's L1 cache keeps what it holds.
__device__ inline uint4 LoadRelaxedSystem(const void* address) {
  uint4 found;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(address)
               : "memory");
  return found;
}

/// Stores a word after everything that this thread wrote or saw written, also for the host. Unlike
/// a fence it does not empty this SM's L1 cache.
__device__ inline void StoreRelease(uint32_t* global, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}

__device__ inline void StoreRelaxed(uint32_t* global, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}

/// Orders for the host too: everything that this thread wrote or saw written comes before what it
/// writes next, and what the host wrote before a word that this thread has read is seen after the
/// fence.
__device__ inline void FenceForHost() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/// Like FenceForHost, between threads of the MTB. Takes some 80 ns, more where the SM writes much.
/// Relaxed operations behind such a fence need no order of their own.
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

/// Adds to the word and returns what it held before. Used between FenceForMtb and, for the thread
/// that takes the last count, another fence or a read with acquire: so it orders what the warps of
/// a task or block wrote.
__device__ inline uint32_t Count(uint32_t* shared, uint32_t change) {
  uint32_t before;
  asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(change)
               : "memory");
  return before;
}
__device__ inline uint32_t CountDown(uint32_t* shared) { return Count(shared, ~0u); }

/// Replaces the word and returns what it held before. Acquire and release.
__device__ inline uint32_t Exchange(uint32_t* shared, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.exch.b32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(value)
               : "memory");
  return before;
}

/// Writes `value` where the word is `expected`. Returns what it held before. Acquire.
__device__ inline uint32_t CompareAndSwap(uint32_t* shared, uint32_t expected, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(expected), "r"(value)
               : "memory");
  return before;
}

/// Sets bits. Used after a fence; the scheduler reads the word with acquire.
__device__ inline void MarkBits(uint32_t* shared, uint32_t bits) {
  asm volatile("red.relaxed.cta.shared.or.b32 [%0], %1;" ::"r"(SharedAddress(shared)), "r"(bits)
               : "memory");
}

/// Wakes executors, a bit each. Each executor sees what the lane with its number wrote before. All
/// lanes call it [named barriers: PTX ISA 9.7.13.1, which counts by warps].
__device__ inline void Wake(uint32_t executors) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane >= kNamedExecutors && ((executors >> lane) & 1) != 0) {  // plant: OnlyOneOfThoseHandedWarpsIsWoken
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(
                     SharedAddress(&Mtb().wake[lane]))
                 : "memory");
  }
  __syncwarp();
  for (uint32_t named = executors & ((1u << kNamedExecutors) - 1); named != 0; named &= named - 1) {
    asm volatile("barrier.cta.arrive.aligned %0, 64;" ::"r"(__ffs(named)) : "memory");
  }
}

/// Sleeps until the phase of this parity has ended. `kSleepNs` is the hint for how long the
/// hardware may suspend the thread at a time. Without the hint warps look again so often that 31 of
/// them slow each other, and the scheduler, by microseconds [measured:
/// docs/results/narrow-tasks.md; PTX ISA 9.7.13.15.16].
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

/// Sleeps until this executor is woken. All lanes call it.
__device__ inline void AwaitWake(uint32_t executor, uint32_t parity) {
  if (executor < kNamedExecutors) {
    asm volatile("barrier.cta.sync.aligned %0, 64;" ::"r"(executor + 1) : "memory");
  } else {
    if (threadIdx.x % 32 == 0) AwaitPhase(&Mtb().wake[executor], parity);
    __syncwarp();
  }
}

/// A position among the warps of a task: a block, and a warp of that block.
struct WarpPlace {
  uint32_t block = 0, warp = 0;
  /// Moves on by `count` warps, in blocks of `warps` warps. `count` is small, so the function
  /// counts instead of dividing: division is done in floating point, and build/task_build.cpp
  /// counts a module's floating-point instructions.
  __device__ void Advance(uint32_t count, uint32_t warps) {
    for (warp += count; warp >= warps; warp -= warps) ++block;
  }
};

/// Whether a free executor, the lane's, is one of those that a task of `warps` warps takes. An SM
/// has four sub-partitions, each of which runs the warps with one number modulo 4. A task of four
/// warps gets one warp on each sub-partition, where each has a free one. A task with more warps
/// begins where four executors in a row are free.
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

/// Frees executors that were taken. With release: a warp that takes them next may write what was
/// read before.
__device__ inline void GiveBackExecutors(uint32_t taken) {
  const uint32_t lane = threadIdx.x % 32;
  if (((taken >> lane) & 1) != 0) (void)Exchange(&Mtb().warps[lane].job, kNoJob);
}

/// Takes between `least` and `most` free executors, or none, for warps of a task from `place` on,
/// if `spared` others stay free. Each lane looks after one executor (pSched, the paper's algorithm
/// 2). All lanes of the scheduler or of an executor call it. Returns a bit for each executor that
/// was taken; the caller must wake it or give it back.
__device__ inline uint32_t TakeExecutors(uint32_t row, uint32_t slot, WarpPlace place,
                                         uint32_t least, uint32_t most, uint32_t spared = 0) {
  const uint32_t lane = threadIdx.x % 32, lower = (1u << lane) - 1;
  WarpEntry& entry = Mtb().warps[lane];
  const bool is_free = lane < blockDim.x / 32 - 1 && LoadAcquire(&entry.job) == kNoJob;
  const uint32_t free = __ballot_sync(kAllLanes, is_free);
  if (__popc(free) < least + spared) return 0;
  const bool is_taken = is_free && IsChosen(free, lane, most) &&
                        CompareAndSwap(&entry.job, kNoJob, row + 2) == kNoJob;  // plant: AnExecutorIsHandedTwo
  const uint32_t taken = __ballot_sync(kAllLanes, is_taken);
  if (__popc(taken) < least) {  // other warps have taken some meanwhile
    GiveBackExecutors(taken);
    return 0;
  }
  if (is_taken) {
    place.Advance(__popc(taken & lower), Warps(Header(row)));
    entry.block = place.block;
    entry.first_thread = place.warp * 32;
    entry.slot = slot;
  }
  __syncwarp();  // all lanes have read what they need of the record
  return taken;
}

/// Hands warps of a task to free executors, chosen as by TakeExecutors, and wakes these. Returns how
/// many warps were handed out.
__device__ inline uint32_t HandWarps(uint32_t row, uint32_t slot, WarpPlace place, uint32_t least,
                                     uint32_t most) {
  const uint32_t taken = TakeExecutors(row, slot, place, least, most);
  if (taken != 0) Wake(taken);
  return __popc(taken);
}

/// Makes a barrier for `threads` threads. The memory must hold no barrier before (EndBarrier).
__device__ inline void BeginBarrier(uint64_t* barrier, uint32_t threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(threads)
               : "memory");
}
__device__ inline void EndBarrier(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}

/// All threads of the block that have not ended wait for each other. A thread with `goes_on` false
/// has ended for the barrier, and does not wait. This is not a named barrier: a named barrier waits
/// for all threads of the caller's warp [PTX ISA 9.7.13.1], and compiled code may hold threads that
/// have returned, and lanes without a thread, at the place where it brings the warp together again.
/// Of threads that come together, one arrives for all.
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
      // plant: ThreadsThatReturnedAreWaitedForLater
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
      "@!ended bra again;\n"  // plant: ThePhaseOfABlockIsNotAwaited
      "}" ::"r"(barrier),
      "l"(phase), "r"(kSleepNs)
      : "memory");
  __syncwarp(together);
}

/// Runs a warp of a task: calls `Bodies::Run(body, arguments)` in those lanes for which the block has
/// threads.
template <class Bodies>
__device__ void RunWarp(const WarpEntry& warp, uint32_t row) {
  const TaskHeader& header = Header(row);
  if (warp.first_thread + threadIdx.x % 32 < header.threads) {
    Bodies::Run(header.body, reinterpret_cast<const char*>(Mtb().records[row] + 4));
    if (header.barrier == kMeets) MeetBlock(warp.slot, false);  // plant: ThreadsThatReturnedAreWaitedFor
  }
  __syncwarp();
}

}  // namespace cupola::runtime
