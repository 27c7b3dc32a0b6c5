// PF: path finder. The cheapest way from the first to the last row of a grid of costs, one step
// down and at most one sideways at a time, by dynamic programming. A block computes a strip of
// columns through all rows in shared memory; it reads as many columns more on either side as there
// are rows, since an error at the rim moves in by one column a row.
#include <algorithm>
#include <vector>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace pf {

constexpr int kThreads = 256;
constexpr int kRows = 20;
constexpr int kStrip = kThreads - 2 * kRows;
constexpr int kFar = 1 << 28;

__host__ __device__ inline uint8_t WallCost(long row, long column, long columns) {
  return static_cast<uint8_t>(MixIndex(row * columns + column, 5) % 10);
}
__host__ __device__ inline int StartCost(long column) {
  return static_cast<int>(MixIndex(column, 6) % 100);
}

__global__ void FillWall(uint8_t* wall, int* start, long columns) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long c = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; c < columns; c += step) {
    start[c] = StartCost(c);
    for (int row = 0; row < kRows; ++row) wall[row * columns + c] = WallCost(row, c, columns);
  }
}

__global__ void FindPaths(const uint8_t* wall, const int* start, int* cost, long columns,
                          long strips) {
  __shared__ int line[2][kThreads];  // the row above, in turns: one barrier a row
  const int mine = static_cast<int>(threadIdx.x);
  for (long strip = blockIdx.x; strip < strips; strip += gridDim.x) {
    const long column = strip * kStrip + mine - kRows;
    const bool inside = column >= 0 && column < columns;
    int best = inside ? start[column] : kFar;
    for (int row = 0; row < kRows; ++row) {
      int* above = line[row & 1];
      above[mine] = best;
      __syncthreads();
      if (inside) {
        const int left = mine > 0 ? above[mine - 1] : kFar;
        const int right = mine < kThreads - 1 ? above[mine + 1] : kFar;
        best = wall[row * columns + column] + min(min(left, right), best);
      }
    }
    if (inside && mine >= kRows && mine < kThreads - kRows) cost[column] = best;
  }
}

class PathFinder : public Program {
 public:
  const char* name() const override { return "pf"; }
  long smallest() const override { return kStrip * 8 + 3; }

  void Prepare(const Problem& problem) override {
    columns_ = problem.size;
    strips_ = (columns_ + kStrip - 1) / kStrip;
    Allocate(&wall_, columns_ * kRows);
    Allocate(&start_, columns_);
    Allocate(&cost_, columns_);
    FillWall<<<FillBlocks(columns_), 256>>>(wall_, start_, columns_);
    CHECK(cudaGetLastError());
    block_.x = kThreads;
    grid_.x = BlocksFor(strips_, problem.part, FindPaths);
  }

  void Launch(cudaStream_t stream) override {
    FindPaths<<<grid_, block_, 0, stream>>>(wall_, start_, cost_, columns_, strips_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {cost_, columns_, false}; }

  double Expected(long column) const override {
    const long first = std::max(0L, column - kRows), last = std::min(columns_ - 1, column + kRows);
    std::vector<int> above, row_costs;
    for (long c = first; c <= last; ++c) above.push_back(StartCost(c));
    for (int row = 0; row < kRows; ++row) {
      row_costs = above;
      for (size_t i = 0; i < above.size(); ++i) {
        if (i > 0) row_costs[i] = std::min(row_costs[i], above[i - 1]);
        if (i + 1 < above.size()) row_costs[i] = std::min(row_costs[i], above[i + 1]);
        row_costs[i] += WallCost(row, first + static_cast<long>(i), columns_);
      }
      above.swap(row_costs);
    }
    return above[column - first];
  }

 private:
  long columns_ = 0;
  long strips_ = 0;
  uint8_t* wall_ = nullptr;
  int *start_ = nullptr, *cost_ = nullptr;
};

}  // namespace pf

int main(int argc, char** argv) {
  pf::PathFinder program;
  return RunProgram(argc, argv, program);
}
