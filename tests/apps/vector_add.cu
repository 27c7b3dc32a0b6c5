// c = a + b, the first program anyone writes.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void VectorAdd(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 100001);
  const size_t bytes = n * sizeof(float);
  std::vector<float> a(n), b(n), c(n), expected(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<float>(Mix(i) % 10000) / 16.0f;
    b[i] = static_cast<float>(Mix(i + 1) % 10000) / 32.0f;
    expected[i] = a[i] + b[i];
  }

  float *device_a, *device_b, *device_c;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_c, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  VectorAdd<<<(n + 255) / 256, 256>>>(device_a, device_b, device_c, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_c));

  Checksum sum;
  sum.Add(c);
  std::printf("%d sums, the last is %g\n", n, c[n - 1]);
  return Report("vector_add", c == expected, sum);
}
