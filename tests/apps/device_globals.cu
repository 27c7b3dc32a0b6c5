// Module variables that both sides change between launches: an initialised __device__ scalar, a
// table, a counter that kernels add to, a static one that only a kernel writes, and one that the
// host reaches by its address.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__device__ int scale = 3;
__device__ unsigned table[16] = {1, 2, 3, 5, 8, 13, 21, 34};
__device__ unsigned long long counter;
__device__ unsigned history[8];
static __device__ int generation = 100;

__global__ void Apply(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = in[i] * scale + static_cast<int>(table[i % 16]) + generation;
  atomicAdd(&counter, 1ull);
}

__global__ void NextGeneration(int step) {
  history[step] = static_cast<unsigned>(generation * scale);
  generation += 7;
  table[step] = table[step + 1] * 2;
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 5000);
  constexpr int kSteps = 4;
  std::vector<int> in(n), out(n), expected(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<int>(Mix(i) % 1000);
  unsigned host_table[16] = {1, 2, 3, 5, 8, 13, 21, 34};
  int host_scale = 3, host_generation = 100;
  std::vector<unsigned> history_expected(8), history_seen(8);

  int *device_in, *device_out;
  CHECK(cudaMalloc(&device_in, n * sizeof(int)));
  CHECK(cudaMalloc(&device_out, n * sizeof(int)));
  CHECK(cudaMemcpy(device_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  void* history_address = nullptr;
  size_t history_bytes = 0;
  CHECK(cudaGetSymbolAddress(&history_address, history));
  CHECK(cudaGetSymbolSize(&history_bytes, history));
  CHECK(cudaMemset(history_address, 0, history_bytes));

  Checksum sum;
  bool correct = history_bytes == 8 * sizeof(unsigned);
  for (int step = 0; step < kSteps; ++step) {
    Apply<<<(n + 127) / 128, 128>>>(device_in, device_out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), device_out, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
      expected[i] = in[i] * host_scale + static_cast<int>(host_table[i % 16]) + host_generation;
    correct = correct && out == expected;
    sum.Add(out);

    NextGeneration<<<1, 1>>>(step);
    CHECK(cudaGetLastError());
    history_expected[step] = static_cast<unsigned>(host_generation * host_scale);
    host_generation += 7;
    host_table[step] = host_table[step + 1] * 2;

    host_scale = 5 + step;
    host_table[15 - step] = Mix(step) % 100;
    CHECK(cudaMemcpyToSymbol(scale, &host_scale, sizeof(int)));
    CHECK(cudaMemcpyToSymbol(table, &host_table[15 - step], sizeof(unsigned),
                             (15 - step) * sizeof(unsigned)));
  }
  unsigned long long count = 0;
  unsigned table_seen[16];
  CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
  CHECK(cudaMemcpyFromSymbol(table_seen, table, sizeof(table_seen)));
  CHECK(cudaMemcpy(history_seen.data(), history_address, history_bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  correct = correct && count == static_cast<unsigned long long>(n) * kSteps &&
            history_seen == history_expected;
  for (int i = 0; i < 16; ++i) correct = correct && table_seen[i] == host_table[i];
  sum.Add(history_seen);
  sum.Add(table_seen, sizeof(table_seen));
  std::printf("%llu elements in %d launches, scale ends at %d\n", count, kSteps, host_scale);
  return Report("device_globals", correct, sum);
}
