// The MasterKernel into which `cupola build` puts bodies. It is compiled to PTX when Cupola is
// built. The pass `task` (device/compiler/passes/task_module.h) joins that PTX with the kernels of
// a program and makes the function `cupola_run_body`, which is called here.
#include "device/runtime/master_kernel.cuh"
#include "device/runtime/task_grid.h"

/// Runs one thread of a body. `arguments`: address of the kernel's parameters in shared memory;
/// `thread`: the thread's index, as kTaskThreadBits says; x, y, z: index of the block; `shared`:
/// the block's shared memory, 16-byte aligned; `lanes`: the lanes of the warp that have a thread.
extern "C" __device__ void cupola_run_body(uint32_t body, uint32_t arguments, uint32_t thread,
                                           uint32_t x, uint32_t y, uint32_t z, uint32_t shared,
                                           uint32_t lanes);

/// bar.sync of a body. Where all threads of the block are in one warp and together, they have met.
extern "C" __device__ __noinline__ void cupola_sync_block() {
  const uint32_t threads = cupola::runtime::BlockThreads();
  const uint32_t all = threads >= 32 ? cupola::runtime::kAllLanes : (1u << threads) - 1;
  if (threads <= 32 && __activemask() == all) return __syncwarp(all);
  cupola::runtime::MeetBlock(cupola::runtime::MyWarp().slot, true);
}

/// A body of kind kMeetsAndLeaves calls this in each thread that is about to return. It cannot be
/// called behind the body: there, compiled code may hold threads that have returned until their
/// warp is together again, which other threads of the warp, waiting at a barrier, prevent.
extern "C" __device__ __noinline__ void cupola_leave_block() {
  cupola::runtime::MeetBlock(cupola::runtime::MyWarp().slot, false);
}

namespace cupola::runtime {

/// Moves `count` items. All threads of the task call it together.
template <typename Item>
__device__ void CopyItems(const TaskCopy& copy, uint32_t thread, uint64_t count) {
  auto* const to = reinterpret_cast<Item*>(copy.to);
  const auto* const from = reinterpret_cast<const Item*>(copy.from);
#pragma unroll 4
  for (uint64_t i = thread; i < count; i += BlockThreads()) to[i] = from[i];
}

__device__ inline void CopyBytes(const TaskCopy& copy, uint32_t thread) {
  const uint64_t all = copy.to | copy.from | copy.bytes;
  if (all % sizeof(uint4) == 0) {
    CopyItems<uint4>(copy, thread, copy.bytes / sizeof(uint4));
  } else if (all % sizeof(uint32_t) == 0) {
    CopyItems<uint32_t>(copy, thread, copy.bytes / sizeof(uint32_t));
  } else {
    CopyItems<uint8_t>(copy, thread, copy.bytes);
  }
}

template <typename Item>
__device__ void FillItems(uint64_t to, const Item& item, uint32_t thread, uint32_t count) {
  for (uint32_t i = thread; i < count; i += BlockThreads()) reinterpret_cast<Item*>(to)[i] = item;
}

__device__ inline void FillBytes(const TaskFill& fill, uint32_t thread) {
  const uint32_t pattern = fill.pattern, all = static_cast<uint32_t>(fill.to) | fill.bytes;
  if (all % sizeof(uint4) == 0) {
    const uint4 item = {pattern, pattern, pattern, pattern};
    FillItems(fill.to, item, thread, fill.bytes / sizeof(uint4));
  } else if (all % sizeof(uint32_t) == 0) {
    FillItems(fill.to, pattern, thread, fill.bytes / sizeof(uint32_t));
  } else if (all % sizeof(uint16_t) == 0) {
    FillItems(fill.to, static_cast<uint16_t>(pattern), thread, fill.bytes / sizeof(uint16_t));
  } else {
    FillItems(fill.to, static_cast<uint8_t>(pattern), thread, fill.bytes);
  }
}

/// What RunWarp calls for each thread of a task.
struct ImageBodies {
  __device__ static void Run(uint32_t body, const char* arguments) {
    if (body >= kFirstOwnBody) {
      const char* const parameters = arguments + sizeof(TaskGrid);
      const uint32_t own = MyWarp().first_thread + threadIdx.x % 32;
      if (body == kFillBody) return FillBytes(*reinterpret_cast<const TaskFill*>(parameters), own);
      return CopyBytes(*reinterpret_cast<const TaskCopy*>(parameters), own);
    }
    const WarpEntry& warp = MyWarp();
    const TaskGrid& grid = *reinterpret_cast<const TaskGrid*>(arguments);
    uint32_t thread = warp.first_thread + threadIdx.x % 32;
    const uint32_t left = BlockThreads() - warp.first_thread;
    if (grid.block[1] != 1 || grid.block[2] != 1) {
      const uint32_t row = thread / grid.block[0];
      thread = thread % grid.block[0] | (row % grid.block[1]) << kTaskThreadBits |
               (row / grid.block[1]) << (2 * kTaskThreadBits);
    }
    uint32_t x = warp.block, y = 0, z = 0;
    if (grid.blocks_y != 1 || grid.blocks_z != 1) {
      y = x / grid.blocks_x;
      x %= grid.blocks_x;
      z = y / grid.blocks_y;
      y %= grid.blocks_y;
    }
    uint32_t shared = SharedAddress(Arena());
    if (warp.slot != kNoSlot) shared += Mtb().blocks[warp.slot].first_unit * kTaskUnitBytes;
    cupola_run_body(body, SharedAddress(arguments + sizeof(TaskGrid)), thread, x, y, z, shared,
                    left >= 32 ? kAllLanes : (1u << left) - 1);
  }
};

}  // namespace cupola::runtime

extern "C" __global__ void __launch_bounds__(1024, 2)
    cupola_master_kernel(const __grid_constant__ cupola::runtime::MasterParams params) {
  cupola::runtime::RunMtb<cupola::runtime::ImageBodies>(params);
}
