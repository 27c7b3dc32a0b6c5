// Tasks that fail: a body that traps, a barrier in a task that did not say that it uses one. Each
// must come back as an error of CUDA's, from the wait and from all that is spawned later, and not
// hang; so it does to who only asks for it. And one that does not end until it is let: waiting for
// it has a limit. task_faults trap|barrier|polled|endless
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

// Ends when it is let, or after 20 s.
__device__ void Endless(const volatile unsigned* let) {
  const uint64_t start = cupola::runtime::NowNs();
  while (*let == 0 && cupola::runtime::NowNs() - start < 20'000'000'000ull) {
  }
}

using Tasks = task::TaskSystem<Count, Trap, Sync, Endless>;

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
  const task::Error waited = tasks.Wait(bad),
                    later = tasks.Spawn<Count>({.threads = 64}, &good, out);
  bool is_done = true;
  const task::Error checked = tasks.Check(bad, &is_done);
  std::printf("wait %d, spawn %d, check %d: %s\n", static_cast<int>(waited),
              static_cast<int>(later), static_cast<int>(checked),
              cudaGetErrorString(tasks.cuda_error()));
  return checked == task::Error::kDevice && !is_done && waited == task::Error::kDevice &&
         later == task::Error::kDevice && tasks.cuda_error() != cudaSuccess &&
         tasks.WaitAll() == task::Error::kDevice;
}

bool RunPolled() {
  Tasks tasks;
  unsigned* out = nullptr;
  task::TaskId bad{};
  if (cudaMalloc(&out, 4) != cudaSuccess || cudaMemset(out, 0, 4) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess ||
      tasks.Spawn<Trap>({.threads = 64}, &bad, out) != task::Error::kNone) {
    return false;
  }
  const auto start = std::chrono::steady_clock::now();
  task::Error checked = task::Error::kNone;
  bool is_done = false;
  unsigned times = 0;
  for (; checked == task::Error::kNone && !is_done; ++times) {
    checked = tasks.Check(bad, &is_done);
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) break;
  }
  std::printf("asked %u times, then %d: %s\n", times, static_cast<int>(checked),
              cudaGetErrorString(tasks.cuda_error()));
  return checked == task::Error::kDevice && !is_done;
}

bool RunEndless() {
  unsigned *let = nullptr, *mapped = nullptr;
  if (cudaHostAlloc(&let, 4, cudaHostAllocMapped) != cudaSuccess ||
      cudaHostGetDevicePointer(&mapped, let, 0) != cudaSuccess) {
    return false;
  }
  *let = 0;
  Tasks tasks;
  tasks.set_time_limit(std::chrono::milliseconds(200));
  task::TaskId id{};
  if (tasks.Spawn<Endless>({.threads = 32}, &id, mapped) != task::Error::kNone) return false;
  const task::Error one = tasks.Wait(id), all = tasks.WaitAll();
  *static_cast<volatile unsigned*>(let) = 1;
  tasks.set_time_limit(std::chrono::seconds(15));
  const task::Error then = tasks.Wait(id);
  std::printf("%d, %d, then %d\n", static_cast<int>(one), static_cast<int>(all),
              static_cast<int>(then));
  return one == task::Error::kTimedOut && all == task::Error::kTimedOut &&
         then == task::Error::kNone;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (std::strcmp(argv[1], "endless") == 0) return RunEndless() ? 0 : 1;
  if (std::strcmp(argv[1], "polled") == 0) return RunPolled() ? 0 : 1;
  return Run(std::strcmp(argv[1], "trap") == 0) ? 0 : 1;
}
