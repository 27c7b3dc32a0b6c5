// Doubles numbers in tasks, of C++ and of C, and prints whether all were doubled.
#include <cupola/cupola.h>

#include <cstdio>
#include <cstring>

extern "C" int double_from_c(cupola_tasks* tasks, int* values, int count);

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
  cupola_tasks* const of_c = cupola::task::ForC(cupola::task::Named<Double>{"Double"});
  if (double_from_c(of_c, values, kCount) != 0) return 4;
  cupola_tasks_destroy(of_c);
  for (int i = 0; i < kTasks * kCount; ++i) {
    if (values[i] != (i < kCount ? 4 : 2) * i) return 5;
  }
  if (std::strcmp(PACKAGE_VERSION, CUPOLA_VERSION_TEXT) != 0 || cupola_version() != CUPOLA_VERSION) return 6;
  std::puts("all doubled");
  return 0;
}
