// Preemptible variants written by hand after the rules of device/runtime/preempt_control.h: claims
// of `batch` blocks, which a worker that is asked to leave runs to their end. The worker's first
// thread leads.
#include "device/runtime/preempt_control.h"
#include "tests/preempt/kernels.h"

using cupola::runtime::ControlSlot;
using cupola::runtime::HostStatus;
using cupola::runtime::PreemptParams;
using cupola::runtime::SliceParams;
using cupola::runtime::YieldLine;

namespace {

__device__ uint32_t SmId() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

__device__ uint32_t NowNs() {
  uint32_t now;
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now));
  return now;
}

__device__ uint32_t LoadAcquire(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ void StoreReleaseSystem(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// `*bound`: of the stop, where there is one.
__device__ bool IsStopped(const PreemptParams& p, ControlSlot* slot, uint32_t* bound) {
  auto& physical = slot->physical[p.physical];
  const auto leaves = [&](uint32_t stop) {
    *bound = stop & 0xFFFF;
    return stop >> 16 == p.tag && SmId() < *bound;
  };
  if (leaves(LoadAcquire(&physical.stop))) return true;
  if (p.yield_line == 0) return false;  // nobody asks this one
  const uint32_t due = LoadAcquire(&physical.poll_at_ns);
  const uint32_t now = NowNs();
  if (due - now - 1 < p.poll_period_ns) return false;
  if (atomicCAS(&physical.poll_at_ns, due, now + p.poll_period_ns) != due) return false;
  auto* line = reinterpret_cast<volatile YieldLine*>(p.yield_line);
  if (line->requests == 0) return false;
  const uint32_t stop = p.tag << 16 | (line->sm_bound & 0xFFFF);
  atomicExch(&physical.stop, stop);
  return leaves(stop);
}

__device__ void Leave(const PreemptParams& p, ControlSlot* slot, uint32_t blocks) {
  auto* status = reinterpret_cast<HostStatus*>(p.status);
  __threadfence_system();
  const uint32_t before = blocks != 0 ? atomicAdd(&slot->completed, blocks) : 0;
  if (blocks != 0 && before + blocks == p.base_completed + p.total_blocks) {
    __threadfence_system();
    StoreReleaseSystem(&slot->done, p.sequence);
    StoreReleaseSystem(&status->done, p.sequence);
  }
  __threadfence_system();
  if (atomicInc(&slot->physical[p.physical].exits, p.workers - 1) != p.workers - 1) return;
  __threadfence_system();
  status->next_final[p.physical] = LoadAcquire(&slot->next);
  StoreReleaseSystem(&status->ended[p.physical], p.tag);
}

// A worker leaves because of a stop that is not for all SMs.
__device__ void TellYield(const PreemptParams& p, ControlSlot* slot) {
  auto* told = reinterpret_cast<volatile uint32_t*>(
      &reinterpret_cast<HostStatus*>(p.status)->yielded);
  uint32_t yielded = atomicAdd(&slot->yielded, 1) + 1, before;
  do {  // of several that leave at a time, the last to store tells of all
    asm volatile("fence.sc.sys;" ::: "memory");
    *told = before = yielded;
    asm volatile("fence.sc.sys;" ::: "memory");
    yielded = LoadAcquire(&slot->yielded);
  } while (yielded != before);
}

template <typename Body>
__device__ void Work(const PreemptParams& p, Body body) {
  __shared__ uint32_t first, count;
  auto* slot = reinterpret_cast<ControlSlot*>(p.slot);
  const bool leads = threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0;
  uint32_t completed = 0;
  for (;;) {
    if (leads) {
      count = 0;
      uint32_t bound = 0;
      if (IsStopped(p, slot, &bound)) {
        if (bound != cupola::runtime::kAllSms) TellYield(p, slot);
      } else {
        first = atomicAdd(&slot->next, p.batch) - p.base_next;
        if (first < p.total_blocks) count = min(p.batch, p.total_blocks - first);
      }
    }
    __syncthreads();
    const uint32_t begin = first, blocks = count;
    if (blocks == 0) break;
    for (uint32_t i = begin; i < begin + blocks; ++i) {
      const uint3 index = make_uint3(i % p.grid[0], i / p.grid[0] % p.grid[1],
                                     i / p.grid[0] / p.grid[1]);
      body(Block{index, dim3(p.grid[0], p.grid[1], p.grid[2])});
      __syncthreads();
    }
    completed += blocks;
  }
  if (leads) Leave(p, slot, completed);
}

}  // namespace

extern "C" {

__global__ void Fold__cupola_preemptible(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds,
                                         const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { FoldBlock(block, runs, value, tag, rounds); });
}

__global__ void Where__cupola_preemptible(uint32_t* runs, uint32_t* value, uint32_t tag, int rounds,
                                          uint32_t* where,
                                          const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { WhereBlock(block, runs, value, tag, rounds, where); });
}

__global__ void Paced__cupola_preemptible(uint32_t* runs, uint32_t* value, uint32_t tag,
                                          uint32_t* where, Pace* pace,
                                          const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { PacedBlock(block, runs, value, tag, where, pace); });
}

__global__ void Stamp__cupola_preemptible(Stamps* stamps, uint32_t op, int rounds,
                                          const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { StampBlock(block, stamps, op, rounds); });
}

// Has no preemptible form.
__global__ void Step__cupola_sliced(uint32_t* runs, Steps* steps,
                                    const __grid_constant__ SliceParams launch) {
  StepBlock({make_uint3(launch.first_block + blockIdx.x, 0, 0), dim3(launch.grid[0], 1, 1)}, runs,
            steps);
}

__constant__ uint64_t cupola_variables[1];

__global__ void FoldGlobal__cupola_preemptible(const __grid_constant__ PreemptParams launch) {
  auto* all = reinterpret_cast<uint32_t*>(cupola_variables[0]);
  Work(launch, [&](const Block& block) {
    const uint32_t blocks = block.grid.x * block.grid.y * block.grid.z;
    FoldBlock(block, all, all + blocks, 1, 4000);
  });
}

// The same, not said to wait on other blocks.
__global__ void Holding__cupola_preemptible(volatile uint32_t* flag, uint32_t* value,
                                            const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { AwaitBlock(block, flag, value); });
}

// So much shared memory that fewer blocks fit than of the original.
__global__ void Meet__cupola_preemptible(uint32_t* arrived,
                                         const __grid_constant__ PreemptParams launch) {
  __shared__ volatile uint32_t unused[10'000];
  unused[threadIdx.x] = 0;
  Work(launch, [&](const Block& block) { MeetBlock(block, arrived); });
}

__global__ void Await__cupola_preemptible(volatile uint32_t* flag, uint32_t* value,
                                          const __grid_constant__ PreemptParams launch) {
  Work(launch, [&](const Block& block) { AwaitBlock(block, flag, value); });
}

}  // extern "C"
