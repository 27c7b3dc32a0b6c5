// A MasterKernel of small bodies for the stepped device. Each checks from within what it can: its
// threads, its neighbours at barriers, its shared memory.
#include "device/runtime/master_kernel.cuh"
#include "device/runtime/solo_task.cuh"

namespace cupola::runtime {

/// Arguments of all bodies.
struct BodyArguments {
  uint32_t* out;  ///< a word for each thread of the task: +1 for each time it ran
  uint32_t value;
  uint32_t* wrong;  ///< +1 for what a body finds
  uint32_t* in;     ///< a word for each thread that holds `value`; or a flag
};

__device__ inline uint32_t Thread() { return MyWarp().first_thread + threadIdx.x % 32; }

// 0: threads by themselves.
__device__ void Mark(const BodyArguments& a) {
  a.out[MyWarp().block * BlockThreads() + Thread()] += a.value;
}

// 1: each thread reads what its neighbour wrote before the barrier.
__device__ void Exchange(const BodyArguments& a) {
  uint32_t* const out = a.out + MyWarp().block * BlockThreads();
  const uint32_t thread = Thread(), next = (thread + 1) % BlockThreads();
  out[thread] += a.value - 1;
  MeetBlock(MyWarp().slot, true);
  if (out[next] != a.value - 1) atomicAdd(a.wrong, 1u);
  MeetBlock(MyWarp().slot, true);
  out[thread] += 1;
}

// 2: the same in shared memory; odd threads return before the other barriers.
__device__ void Share(const BodyArguments& a) {
  const BlockEntry& block = Mtb().blocks[MyWarp().slot];
  auto* const words = reinterpret_cast<uint32_t*>(Arena() + block.first_unit * 16);
  const uint32_t thread = Thread(), next = (thread + 1) % BlockThreads();
  words[thread] = a.value + thread;
  MeetBlock(MyWarp().slot, true);
  if (words[next] != a.value + next) atomicAdd(a.wrong, 1u);
  a.out[MyWarp().block * BlockThreads() + thread] += a.value;
  if (thread % 2 == 1) return;
  MeetBlock(MyWarp().slot, true);
  MeetBlock(MyWarp().slot, true);
}

// 3: shared memory without a barrier: the beginnings of both halves of it.
__device__ void Keep(const BodyArguments& a) {
  const BlockEntry& block = Mtb().blocks[MyWarp().slot];
  auto* const words = reinterpret_cast<uint32_t*>(Arena() + block.first_unit * 16);
  const uint32_t count = MyHeader().shared_bytes / 4;
  words[Thread()] = a.value;
  if (count >= 2 * BlockThreads()) words[count / 2 + Thread()] = a.value;
  if (words[Thread()] != a.value) atomicAdd(a.wrong, 1u);
  a.out[MyWarp().block * BlockThreads() + Thread()] += words[Thread()];
}

// 4: reads what the host, or a task before it, has written.
__device__ void Follow(const BodyArguments& a) {
  const uint32_t i = MyWarp().block * BlockThreads() + Thread();
  if (a.in[i] != a.value) atomicAdd(a.wrong, 1u);
  a.out[i] += a.value;
}

// 5: runs until a task of body 6 has.
__device__ void Await(const BodyArguments& a) {
  while (atomicAdd(a.in, 0u) == 0) {
  }
  a.out[MyWarp().block * BlockThreads() + Thread()] += a.value;
}

// 6: lets tasks of body 5 go.
__device__ void Let(const BodyArguments& a) {
  atomicAdd(a.in, 1u);
  a.out[MyWarp().block * BlockThreads() + Thread()] += a.value;
}

struct SteppedBodies {
  __device__ static void Run(uint32_t body, const char* arguments) {
    // Those of long records lie behind their near chunks.
    constexpr uint32_t kFar = 4 * kNearChunks * kChunkWords - sizeof(TaskHeader);
    if (MyHeader().chunks > kNearChunks) arguments += kFar;
    const auto& a = *reinterpret_cast<const BodyArguments*>(arguments);
    switch (body) {
      case 0:
        return Mark(a);
      case 1:
        return Exchange(a);
      case 2:
        return Share(a);
      case 3:
        return Keep(a);
      case 4:
        return Follow(a);
      case 5:
        return Await(a);
      default:
        return Let(a);
    }
  }
};

}  // namespace cupola::runtime

extern "C" __global__ void Master(const __grid_constant__ cupola::runtime::MasterParams params) {
  cupola::runtime::RunMtb<cupola::runtime::SteppedBodies>(params);
}

extern "C" __global__ void Solo(const __grid_constant__ cupola::runtime::SoloParams params) {
  cupola::runtime::RunSolo<cupola::runtime::SteppedBodies>(params);
}
