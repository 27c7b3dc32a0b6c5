// Tasks that fail: a body that traps, a barrier in a task that did not say that it uses one. Each must
// come back as an error of CUDA's, from the wait and from all that is spawned later, and not hang.
// task_faults trap|barrier
#include <cstdio>
#include <cstring>

#include "cupola/task.h"

namespace task = cupola::task;

namespace {

__device__ void Count(unsigned* out) { atomicAdd(out, 1u); }
__device__ void Trap(unsigned* out) {
  if (*out < 1000) __trap();
}
__device__ void Sync(unsigned* out) {
  task::SyncBlock();
  *out = 1;
}

using Tasks = task::TaskSystem<Count, Trap, Sync>;

bool Run(bool trap) {
  Tasks tasks;
  unsigned* out = nullptr;
  if (cudaMalloc(&out, 4) != cudaSuccess || cudaMemset(out, 0, 4) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess) {
    return false;
  }
  task::TaskId good{}, bad{};
  if (tasks.Spawn<Count>({.threads = 64}, &good, out) != task::Error::kNone ||
      tasks.Wait(good) != task::Error::kNone) {
    return false;
  }
  const task::Error spawned = trap ? tasks.Spawn<Trap>({.threads = 64}, &bad, out)
                                   : tasks.Spawn<Sync>({.threads = 64}, &bad, out);
  if (spawned != task::Error::kNone) return false;
  const task::Error waited = tasks.Wait(bad), later = tasks.Spawn<Count>({.threads = 64}, &good, out);
  std::printf("wait %d, spawn %d: %s\n", static_cast<int>(waited), static_cast<int>(later),
              cudaGetErrorString(tasks.cuda_error()));
  return waited == task::Error::kDevice && later == task::Error::kDevice &&
         tasks.cuda_error() != cudaSuccess && tasks.WaitAll() == task::Error::kDevice;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return Run(std::strcmp(argv[1], "trap") == 0) ? 0 : 1;
}
