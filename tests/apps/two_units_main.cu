// Separate compilation (-rdc=true): the kernel calls a device function and reads variables that
// two_units_other.cu defines.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

extern __device__ unsigned other_calls;
extern __constant__ unsigned other_weights[4];
__host__ __device__ unsigned OtherUnit(unsigned value, unsigned weight);
void SetOtherWeights(const unsigned* weights);

__global__ void UseOther(const unsigned* in, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = OtherUnit(in[i], other_weights[i % 4]);
  atomicAdd(&other_calls, 1u);
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 7000);
  const unsigned weights[4] = {3, 1, 4, 15};
  std::vector<unsigned> in(n), out(n), expected(n);
  for (int i = 0; i < n; ++i) {
    in[i] = Mix(i);
    expected[i] = OtherUnit(in[i], weights[i % 4]);
  }
  unsigned *device_in, *device_out, calls = 0;
  CHECK(cudaMalloc(&device_in, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_out, n * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_in, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  SetOtherWeights(weights);
  UseOther<<<(n + 127) / 128, 128>>>(device_in, device_out, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device_out, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&calls, other_calls, sizeof(calls)));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));

  Checksum sum;
  sum.Add(out);
  std::printf("%u calls into the other unit, last %08x\n", calls, out[n - 1]);
  return Report("two_translation_units", out == expected && calls == static_cast<unsigned>(n), sum);
}
