// Two tasks for each row of a matrix: the second one starts when the first has ended. rows ROWS
#include <vector>

#include "check.h"
#include "cupola/cupola.h"

namespace task = cupola::task;
constexpr int kWidth = 256;

__device__ void Square(uint32_t* row) {
  const unsigned i = task::BlockId() * task::BlockThreads() + task::ThreadId();
  row[i] *= row[i];
}

__device__ void RunningSum(
    uint32_t* row) {  // one thread: it reads what all threads of Square wrote
  for (int i = 1; task::ThreadId() == 0 && i < kWidth; ++i) row[i] += row[i - 1];
}

using Tasks = task::TaskSystem<Square, RunningSum>;

int main(int, char** argv) {
  const int rows = std::atoi(argv[1]);
  uint32_t* matrix;
  Check(cudaMallocHost(&matrix, size_t(rows) * kWidth * sizeof(uint32_t)));
  std::vector<uint32_t> expected(size_t(rows) * kWidth);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < kWidth; ++i) {
      const uint32_t value = r * 7 + i, before = i == 0 ? 0 : expected[r * kWidth + i - 1];
      matrix[r * kWidth + i] = value;
      expected[r * kWidth + i] = before + value * value;
    }
  }

  Tasks tasks;
  task::Error error = task::Error::kNone;
  task::TaskId squared, summed;
  for (int r = 0; r < rows && error == task::Error::kNone; ++r) {
    uint32_t* row = matrix + r * kWidth;
    error = tasks.Spawn<Square>({.threads = 128, .blocks = 2}, &squared, row);
    if (error == task::Error::kNone)
      error = tasks.Spawn<RunningSum>({.threads = 32, .after = squared}, &summed, row);
  }
  if (error == task::Error::kNone) error = tasks.WaitAll();
  if (error != task::Error::kNone) return std::puts(tasks.Describe(error).c_str()), 1;

  if (Checksum(matrix, expected.size()) != Checksum(expected.data(), expected.size()))
    return std::puts("wrong"), 1;
  std::printf("%d tasks, results as computed by the host\n", 2 * rows);
}
