// MM: dense square matrices multiplied tile by tile in shared memory; a batch of products, the
// grid's third dimension. The matrices are small, so that a block is.
#include <algorithm>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace mm {

constexpr int kTile = 16;

__global__ void MultiplyTiled(const float* a, const float* b, float* c, int n, int batch) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  for (int product = blockIdx.z; product < batch; product += gridDim.z) {
    const long base = static_cast<long>(product) * n * n;
    float sum = 0;
    for (int k = 0; k < n; k += kTile) {
      tile_a[y][x] = a[base + static_cast<long>(row) * n + k + x];
      tile_b[y][x] = b[base + static_cast<long>(k + y) * n + column];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) sum += tile_a[y][i] * tile_b[i][x];
      __syncthreads();
    }
    c[base + static_cast<long>(row) * n + column] = sum;
  }
}

class MatrixProduct : public Program {
 public:
  const char* name() const override { return "mm"; }
  long smallest() const override { return 2; }

  void Prepare(const Problem& problem) override {
    batch_ = static_cast<int>(problem.size);
    n_ = batch_ <= smallest() ? 3 * kTile : 16 * kTile;
    const long values = static_cast<long>(batch_) * n_ * n_;
    for (float** matrix : {&a_, &b_, &c_}) Allocate(matrix, values);
    FillNoise<<<FillBlocks(values), 256>>>(a_, values, 23, -1, 1);
    FillNoise<<<FillBlocks(values), 256>>>(b_, values, 24, -1, 1);
    CHECK(cudaGetLastError());
    block_ = dim3(kTile, kTile);
    const unsigned tiles = static_cast<unsigned>(n_ / kTile);
    const unsigned blocks =
        BlocksFor(static_cast<long>(tiles) * tiles * batch_, problem.part, MultiplyTiled);
    grid_ = dim3(tiles, tiles, std::max(1u, blocks / (tiles * tiles)));
  }

  void Launch(cudaStream_t stream) override {
    MultiplyTiled<<<grid_, block_, 0, stream>>>(a_, b_, c_, n_, batch_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {c_, static_cast<long>(batch_) * n_ * n_, true}; }
  double Expected(long i) const override {
    const long square = static_cast<long>(n_) * n_;
    const long base = i / square * square, row = i % square / n_, column = i % n_;
    double sum = 0;
    for (int k = 0; k < n_; ++k) {
      sum += static_cast<double>(Noise(base + row * n_ + k, 23, -1, 1)) *
             Noise(base + static_cast<long>(k) * n_ + column, 24, -1, 1);
    }
    return sum;
  }
  double tolerance() const override { return 1e-4; }

 private:
  int n_ = 0;
  int batch_ = 0;
  float *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
};

}  // namespace mm

int main(int argc, char** argv) {
  mm::MatrixProduct program;
  return RunProgram(argc, argv, program);
}
