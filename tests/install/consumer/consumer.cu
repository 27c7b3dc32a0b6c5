// Doubles numbers in tasks, and prints whether all were doubled.
#include <cuda_runtime.h>

#include <cstdio>

#include "cupola/task.h"

__device__ void Double(int* values, int count) {
  const unsigned i = cupola::task::ThreadId();
  if (i < static_cast<unsigned>(count)) values[i] *= 2;
}

int main() {
  constexpr int kCount = 64, kTasks = 8;
  int* values = nullptr;
  if (cudaMallocManaged(&values, kTasks * kCount * sizeof(int)) != cudaSuccess) return 1;
  for (int i = 0; i < kTasks * kCount; ++i) values[i] = i;
  cupola::task::TaskSystem<Double> tasks;
  for (int i = 0; i < kTasks; ++i) {
    cupola::task::TaskId id;
    if (tasks.Spawn<Double>({.threads = kCount}, &id, values + i * kCount, kCount) != cupola::task::Error::kNone) return 2;
    if (tasks.Wait(id) != cupola::task::Error::kNone) return 3;
  }
  for (int i = 0; i < kTasks * kCount; ++i) {
    if (values[i] != 2 * i) return 4;
  }
  std::puts("all doubled");
  return 0;
}
