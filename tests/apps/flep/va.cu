// VA: adds two vectors. The shortest block there is: one element a thread. The vectors are rings of
// at most 2^28 elements, so that an addition as long as table 1 wants needs no more than 3 GiB; a
// longer one goes round again.
#include <algorithm>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace va {

__global__ void VectorAdd(const float* a, const float* b, float* c, long n, long ring) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  // Unrolled it would divide to count its rounds, which takes longer than the addition.
#pragma unroll 1
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const long at = i & (ring - 1);
    c[at] = a[at] + b[at];
  }
}

class VectorAddProgram : public Program {
 public:
  const char* name() const override { return "va"; }
  long smallest() const override { return 256 * 24 + 7; }

  void Prepare(const Problem& problem) override {
    n_ = problem.size;
    ring_ = 256;
    while (ring_ < n_ && ring_ < 1L << 28) ring_ *= 2;
    for (float** vector : {&a_, &b_, &c_}) Allocate(vector, ring_);
    FillNoise<<<FillBlocks(ring_), 256>>>(a_, ring_, 1, -100, 100);
    FillNoise<<<FillBlocks(ring_), 256>>>(b_, ring_, 2, -1, 1);
    CHECK(cudaGetLastError());
    grid_.x = BlocksFor((n_ + 255) / 256, problem.part, VectorAdd);
  }

  void Launch(cudaStream_t stream) override {
    VectorAdd<<<grid_, block_, 0, stream>>>(a_, b_, c_, n_, ring_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {c_, std::min(n_, ring_), true}; }
  double Expected(long i) const override {
    return static_cast<double>(Noise(i, 1, -100, 100)) + Noise(i, 2, -1, 1);
  }
  double tolerance() const override { return 1e-6; }

 private:
  long n_ = 0;
  long ring_ = 0;
  float *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
};

}  // namespace va

int main(int argc, char** argv) {
  va::VectorAddProgram program;
  return RunProgram(argc, argv, program);
}
