// The shared memory of an MTB, a block of the MasterKernel, and what its warps do with it. Pagoda,
// table 2 and section 5; docs/narrow-tasks.md. Device code.
#pragma once

#include "device/runtime/task_record.h"

namespace cupola::runtime {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNoJob = 0, kQuitJob = 1;

/// WarpTable of the paper: what an executor warp is to do. Written by the scheduler while `job` is
/// kNoJob, by nobody otherwise.
struct WarpEntry {
  uint32_t job;           ///< kNoJob, kQuitJob, or 2 + row
  uint32_t block;         ///< of the task
  uint32_t first_thread;  ///< of the block
  uint32_t slot;          ///< of the block in MtbState::blocks; kNoSlot: it needs none
};

/// A block that has something to give back when its last warp has ended.
struct BlockEntry {
  uint32_t warps_left;
  uint32_t barrier;     ///< named barrier; 0: none
  uint32_t first_unit;  ///< of the arena
  uint32_t units;
};

inline constexpr uint32_t kBlockSlots = 32;
inline constexpr uint32_t kNoSlot = kBlockSlots;

struct MtbState {
  uint64_t wake[kMostExecutors];  ///< mbarriers of one arrival
  WarpEntry warps[kMostExecutors];
  BlockEntry blocks[kBlockSlots];
  uint32_t sequence[kTaskRows];
  uint32_t warps_left[kTaskRows];  ///< of a task that have not ended
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
  extern __shared__ __align__(16) char cupola_arena[];
  return cupola_arena;
}

// Of the executor warp that calls.
__device__ inline WarpEntry& MyWarp() { return Mtb().warps[threadIdx.x / 32 - 1]; }
__device__ inline const TaskHeader& MyHeader() {
  return *reinterpret_cast<const TaskHeader*>(Mtb().records[MyWarp().job - 2]);
}
__device__ inline uint32_t BlockThreads() { return MyHeader().threads; }

/// Bits of the first `units`.
__device__ inline uint64_t UnitMask(uint32_t units) {
  return units >= 64 ? ~0ull : (1ull << units) - 1;
}

/// Where runs of 2^k units may begin.
__device__ inline uint64_t RunStarts(uint32_t units) {
  constexpr uint64_t kStarts[] = {~0ull,
                                  0x5555555555555555ull,
                                  0x1111111111111111ull,
                                  0x0101010101010101ull,
                                  0x0001000100010001ull,
                                  0x0000000100000001ull,
                                  1};
  return kStarts[units == 0 ? 0 : __ffs(units) - 1];
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

/// %globaltimer, the same in all lanes of the warp.
__device__ inline uint64_t WarpTimeNs() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return __shfl_sync(kAllLanes, now, 0);
}

__device__ inline uint4 LoadChunk(const TaskChunk* chunk) {
  uint4 found;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(chunk));
  return found;
}

/// {HostControl::awake, HostControl::leave}
__device__ inline uint2 LoadHostControl(const HostControl* host) {
  uint2 found;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(found.x), "=r"(found.y)
               : "l"(host));
  return found;
}

/// {DeviceControl::awake, leave, busy}, the same in all lanes of the warp.
__device__ inline uint3 LoadDeviceControl(const DeviceControl* device) {
  uint4 found;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(device));
  return {__shfl_sync(kAllLanes, found.x, 0), __shfl_sync(kAllLanes, found.y, 0),
          __shfl_sync(kAllLanes, found.z, 0)};
}

__device__ inline void StoreRelaxed(uint32_t* global, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}

/// Everything that this thread wrote or saw written comes before what it writes next, for the host
/// too.
__device__ inline void FenceForHost() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ inline uint32_t LoadAcquire(const uint32_t* shared) {
  uint32_t value;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
               : "=r"(value)
               : "r"(SharedAddress(shared))
               : "memory");
  return value;
}

__device__ inline void StoreRelease(uint32_t* shared, uint32_t value) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(SharedAddress(shared)), "r"(value)
               : "memory");
}

/// Takes one off; what was there before. Orders what the warps of a task or block wrote.
__device__ inline uint32_t CountDown(uint32_t* shared) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], -1;"
               : "=r"(before)
               : "r"(SharedAddress(shared))
               : "memory");
  return before;
}

/// Takes the word and leaves another.
__device__ inline uint32_t Exchange(uint32_t* shared, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.exch.b32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(SharedAddress(shared)), "r"(value)
               : "memory");
  return before;
}

__device__ inline void MarkEnded(uint32_t* shared, uint32_t bits) {
  asm volatile("red.release.cta.shared.or.b32 [%0], %1;" ::"r"(SharedAddress(shared)), "r"(bits)
               : "memory");
}

/// Wakes an executor: what was written before is seen by it.
__device__ inline void Wake(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier))
               : "memory");
}

/// Sleeps until the phase of this parity has ended.
__device__ inline void AwaitWake(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

/// All threads of the block that have not ended wait for each other. Those that have, and lanes
/// that the block has no thread for, come to the same barrier in EndBlock: hardware counts warps,
/// and a warp has arrived when all its lanes have [PTX ISA 9.7.13.1].
__device__ inline bool MeetBlock(uint32_t slot, bool goes_on) {
  const uint32_t barrier = Mtb().blocks[slot].barrier, threads = (BlockThreads() + 31) & ~31u;
  uint32_t anyone;
  asm volatile(
      "{\n"
      ".reg .pred in, out;\n"
      "setp.ne.u32 in, %3, 0;\n"
      "barrier.red.or.pred out, %1, %2, in;\n"
      "selp.u32 %0, 1, 0, out;\n"
      "}"
      : "=r"(anyone)
      : "r"(barrier), "r"(threads), "r"(static_cast<uint32_t>(goes_on))
      : "memory");
  return anyone != 0;
}

/// Behind the body, all lanes of a block that has a barrier: they wait with those that are still in
/// it.
__device__ inline void EndBlock(uint32_t slot) {
  while (MeetBlock(slot, false)) {
  }
}

}  // namespace cupola::runtime
