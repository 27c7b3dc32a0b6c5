// The CUDA C++ side of task_c_api.c: bodies, a handle, memory.
#include <cstring>

#include "cupola/task_for_c.h"
#include "task_c_api.h"

namespace task = cupola::task;

namespace {

__device__ void Scale(unsigned* words, unsigned count, unsigned factor) {
  const unsigned i = task::BlockId() * task::BlockThreads() + task::ThreadId();
  if (i < count) words[i] *= factor;
}

__device__ void Sum(const unsigned* words, unsigned* sums, double share, char tag) {
  auto* const own = static_cast<unsigned*>(task::SharedMemory());
  const unsigned thread = task::ThreadId(), threads = task::BlockThreads();
  own[thread] = words[task::BlockId() * threads + thread];
  task::SyncBlock();
  if (thread != 0) return;
  unsigned sum = 0;
  for (unsigned i = 0; i < threads; ++i) sum += own[i];
  sums[task::BlockId()] = static_cast<unsigned>(sum * share) + tag;
}

__device__ void Nothing() {}

__device__ void Endless(const volatile unsigned* let) {
  const uint64_t start = cupola::runtime::NowNs();
  while (*let == 0 && cupola::runtime::NowNs() - start < 20'000'000'000ull) {
  }
}

}  // namespace

cupola_tasks* open_tasks(void) {
  return task::ForC(task::Named<Scale>{"Scale"}, task::Named<Sum>{"Sum"},
                    task::Named<Nothing>{"Nothing"}, task::Named<Endless>{"Endless"});
}

unsigned* make_words(unsigned count, unsigned** device) {
  unsigned* words = nullptr;
  if (cudaHostAlloc(&words, count * sizeof *words, cudaHostAllocMapped) != cudaSuccess ||
      cudaHostGetDevicePointer(device, words, 0) != cudaSuccess) {
    return nullptr;
  }
  std::memset(words, 0, count * sizeof *words);
  return words;
}
