// SPMV: a sparse matrix in compressed rows times a dense vector, one warp a row. Rows hold 32 to
// 479 entries in columns anywhere, so that the vector is gathered and rows differ in length.
#include <algorithm>
#include <vector>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace spmv {

constexpr int kWarp = 32;

__host__ __device__ inline int RowLength(long row, int longest) {
  return 32 + static_cast<int>(MixIndex(row, 19) % static_cast<uint32_t>(longest - 32));
}
__host__ __device__ inline int Column(long entry, int columns) {
  return static_cast<int>(MixIndex(entry, 20) % static_cast<uint32_t>(columns));
}

__global__ void FillEntries(int* column, float* value, long entries, int columns) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < entries; i += step) {
    column[i] = Column(i, columns);
    value[i] = Noise(i, 21, -1, 1);
  }
}

__global__ void Multiply(const long* row_start, const int* __restrict__ column,
                         const float* __restrict__ value, const float* __restrict__ x, float* y,
                         long rows) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const long warps = blockDim.x / kWarp;
  // All lanes of a block stay together: the shuffles need them, also beyond the last row.
  for (long first = blockIdx.x * warps; first < rows; first += gridDim.x * warps) {
    const long row = first + warp;
    const long end = row < rows ? row_start[row + 1] : 0;
    float sum = 0;
    for (long i = row < rows ? row_start[row] + lane : 0; i < end; i += kWarp) {
      sum += value[i] * x[column[i]];
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (lane == 0 && row < rows) y[row] = sum;
  }
}

class SparseProduct : public Program {
 public:
  const char* name() const override { return "spmv"; }
  long smallest() const override { return 61; }

  void Prepare(const Problem& problem) override {
    rows_ = problem.size;
    const bool tiny = rows_ < 1000;
    longest_ = tiny ? 64 : 480;
    columns_ = tiny ? 1 << 10 : 1 << 24;
    start_.assign(1, 0);
    for (long row = 0; row < rows_; ++row)
      start_.push_back(start_.back() + RowLength(row, longest_));
    const long entries = start_.back();
    Allocate(&row_start_, start_.size());
    CHECK(cudaMemcpy(row_start_, start_.data(), start_.size() * sizeof(long),
                     cudaMemcpyHostToDevice));
    Allocate(&column_, entries);
    Allocate(&value_, entries);
    Allocate(&x_, columns_);
    Allocate(&y_, rows_);
    FillEntries<<<FillBlocks(entries), 256>>>(column_, value_, entries, columns_);
    FillNoise<<<FillBlocks(columns_), 256>>>(x_, columns_, 22, -1, 1);
    CHECK(cudaGetLastError());
    const long rows_of_a_block = block_.x / kWarp;
    grid_.x = BlocksFor((rows_ + rows_of_a_block - 1) / rows_of_a_block, problem.part, Multiply);
  }

  void Launch(cudaStream_t stream) override {
    Multiply<<<grid_, block_, 0, stream>>>(row_start_, column_, value_, x_, y_, rows_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {y_, rows_, true}; }
  double Expected(long row) const override {
    double sum = 0;
    for (long i = start_[row]; i < start_[row + 1]; ++i) {
      sum += static_cast<double>(Noise(i, 21, -1, 1)) * Noise(Column(i, columns_), 22, -1, 1);
    }
    return sum;
  }
  double tolerance() const override { return 1e-4; }

 private:
  long rows_ = 0;
  int longest_ = 0;
  int columns_ = 0;
  std::vector<long> start_;
  long* row_start_ = nullptr;
  int* column_ = nullptr;
  float *value_ = nullptr, *x_ = nullptr, *y_ = nullptr;
};

}  // namespace spmv

int main(int argc, char** argv) {
  spmv::SparseProduct program;
  return RunProgram(argc, argv, program);
}
