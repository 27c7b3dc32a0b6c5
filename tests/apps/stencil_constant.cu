// A one-dimensional stencil whose taps lie in __constant__ memory; the host changes all of them and
// then one of them between launches with cudaMemcpyToSymbol.
#include <cmath>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kRadius = 3;
constexpr int kTaps = 2 * kRadius + 1;
constexpr int kBlock = 128;

__constant__ float taps[kTaps];

__global__ void Stencil(const float* in, float* out, int n) {
  __shared__ float window[kBlock + 2 * kRadius];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  for (int k = threadIdx.x; k < kBlock + 2 * kRadius; k += kBlock) {
    const int source = static_cast<int>(blockIdx.x) * kBlock + k - kRadius;
    window[k] = source >= 0 && source < n ? in[source] : 0.0f;
  }
  __syncthreads();
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < kTaps; ++k) sum = __fmaf_rn(taps[k], window[threadIdx.x + k], sum);
  out[i] = sum;
}

std::vector<float> Reference(const std::vector<float>& in, const float* weights) {
  const int n = static_cast<int>(in.size());
  std::vector<float> out(n);
  for (int i = 0; i < n; ++i) {
    float sum = 0.0f;
    for (int k = 0; k < kTaps; ++k) {
      const int source = i + k - kRadius;
      sum = std::fmaf(weights[k], source >= 0 && source < n ? in[source] : 0.0f, sum);
    }
    out[i] = sum;
  }
  return out;
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 40000);
  const size_t bytes = n * sizeof(float);
  const int blocks = (n + kBlock - 1) / kBlock;
  std::vector<float> in(n), out(n), expected;
  for (int i = 0; i < n; ++i) in[i] = static_cast<float>(Mix(i) % 1000) / 7.0f;
  float *device_in, *device_out;
  CHECK(cudaMalloc(&device_in, bytes));
  CHECK(cudaMalloc(&device_out, bytes));
  CHECK(cudaMemcpy(device_in, in.data(), bytes, cudaMemcpyHostToDevice));

  float weights[kTaps] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};
  Checksum sum;
  bool correct = true;
  for (int step = 0; step < 2; ++step) {
    if (step == 0) {
      CHECK(cudaMemcpyToSymbol(taps, weights, sizeof(weights)));
    } else {
      weights[kTaps - 1] = -1.5f;
      CHECK(cudaMemcpyToSymbol(taps, &weights[kTaps - 1], sizeof(float),
                               (kTaps - 1) * sizeof(float)));
    }
    Stencil<<<blocks, kBlock>>>(device_in, device_out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
    correct = correct && out == Reference(in, weights);
    sum.Add(out);
    std::printf("taps %d: middle %.5f\n", step, out[n / 2]);
  }
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  return Report("stencil_constant", correct, sum);
}
