// Calls through function pointers: a __device__ table indexed by data that differs within a warp,
// and a pointer that the host fetches and hands to a kernel as an argument.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

using Operation = int (*)(int, int);

__host__ __device__ __noinline__ int Add(int a, int b) { return a + b; }
__host__ __device__ __noinline__ int Multiply(int a, int b) { return a * b; }
__host__ __device__ __noinline__ int Larger(int a, int b) { return a > b ? a : b; }
// A loop, so that the callees differ in length and in how often they branch.
__host__ __device__ __noinline__ int Gcd(int a, int b) {
  while (b != 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

__device__ Operation operations[4] = {Add, Multiply, Larger, Gcd};
__device__ Operation chosen = Gcd;

__global__ void ByTable(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = operations[(a[i] + i / 3) % 4](a[i], b[i]);
}

__global__ void ByArgument(Operation operation, const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = operation(out[i] + a[i], b[i]);
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 6000);
  const size_t bytes = n * sizeof(int);
  const Operation host_operations[4] = {Add, Multiply, Larger, Gcd};
  std::vector<int> a(n), b(n), out(n), expected(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<int>(Mix(i) % 5000) + 1;
    b[i] = static_cast<int>(Mix(i + 9) % 700) + 1;
    expected[i] = host_operations[(a[i] + i / 3) % 4](a[i], b[i]);
    expected[i] = Gcd(expected[i] + a[i], b[i]);
  }

  int *device_a, *device_b, *device_out;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_out, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  ByTable<<<(n + 127) / 128, 128>>>(device_a, device_b, device_out, n);
  CHECK(cudaGetLastError());
  Operation device_operation;
  CHECK(cudaMemcpyFromSymbol(&device_operation, chosen, sizeof(device_operation)));
  ByArgument<<<(n + 127) / 128, 128>>>(device_operation, device_a, device_b, device_out, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_out));

  Checksum sum;
  sum.Add(out);
  std::printf("%d calls through 4 functions, the last gave %d\n", 2 * n, out[n - 1]);
  return Report("function_pointer", out == expected, sum);
}
