// C = A * B with 16 x 16 tiles in shared memory; the size need not be a multiple of the tile.
// Both sides add in the same order with fused multiply-add, so the results are equal to the bit.
#include <cmath>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kTile = 16;

__global__ void MatrixProduct(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < n; start += kTile) {
    const int k_a = start + threadIdx.x, k_b = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < n && k_a < n ? a[row * n + k_a] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = k_b < n && column < n ? b[k_b * n + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < kTile; ++k)
      sum = __fmaf_rn(tile_a[threadIdx.y][k], tile_b[k][threadIdx.x], sum);
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 120);
  const size_t elements = static_cast<size_t>(n) * n, bytes = elements * sizeof(float);
  std::vector<float> a(elements), b(elements), c(elements);
  for (size_t i = 0; i < elements; ++i) {
    a[i] = static_cast<float>(Mix(i) % 2001) / 1000.0f - 1.0f;
    b[i] = static_cast<float>(Mix(i + 77) % 2001) / 1000.0f - 1.0f;
  }

  float *device_a, *device_b, *device_c;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_c, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (n + kTile - 1) / kTile);
  MatrixProduct<<<grid, block>>>(device_a, device_b, device_c, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_c));

  bool correct = true;
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {
      float expected = 0.0f;
      for (int k = 0; k < n; ++k)
        expected = std::fmaf(a[row * n + k], b[k * n + column], expected);
      correct = correct && expected == c[row * n + column];
    }
  }
  Checksum sum;
  sum.Add(c);
  std::printf("%d x %d product, corner %.6f\n", n, n, c[elements - 1]);
  return Report("matmul_tiled", correct, sum);
}
