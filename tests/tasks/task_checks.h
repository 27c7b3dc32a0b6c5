// How programs of tasks check what they call: where it is not as it should be they end at once, with
// a line that says why. Any thread.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cupola/task.h"

namespace cupola::task_test {

[[noreturn]] inline void Fail(const char* what, const std::string& why) {
  std::printf("failed: %s: %s\n", what, why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

inline void Must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) Fail(what, cudaGetErrorString(error));
}

template <typename Tasks>
void Must(const Tasks& tasks, task::Error error, const char* what) {
  if (error != task::Error::kNone) Fail(what, tasks.Describe(error));
}

inline void Expect(bool holds, const char* what) {
  if (!holds) Fail(what, "not so");
}

}  // namespace cupola::task_test
