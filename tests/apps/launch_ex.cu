// cudaLaunchKernelEx: once with no attributes, once with a priority, once cooperative by attribute.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Fill(unsigned* out, unsigned seed, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = out[i] * 31u + seed + blockIdx.x;
}

// Every block waits until all have arrived, which only a cooperative launch may do.
__global__ void Meet(unsigned* out, unsigned* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x) {
    }
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] += 1000003u * gridDim.x;
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 3000);
  constexpr int kMeeting = 4 * 64;
  const int words = n < kMeeting ? kMeeting : n;
  std::vector<unsigned> out(words), expected(words, 0);
  unsigned *device_out, *arrived;
  CHECK(cudaMalloc(&device_out, words * sizeof(unsigned)));
  CHECK(cudaMalloc(&arrived, sizeof(unsigned)));
  CHECK(cudaMemset(device_out, 0, words * sizeof(unsigned)));
  CHECK(cudaMemset(arrived, 0, sizeof(unsigned)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int lowest = 0, highest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((words + 127) / 128);
  config.blockDim = dim3(128);
  config.stream = stream;
  CHECK(cudaLaunchKernelEx(&config, Fill, device_out, 7u, words));

  cudaLaunchAttribute priority = {};
  priority.id = cudaLaunchAttributePriority;
  priority.val.priority = highest;
  config.attrs = &priority;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, Fill, device_out, 11u, words));

  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  config.gridDim = dim3(4);
  config.blockDim = dim3(kMeeting / 4);
  config.attrs = &cooperative;
  CHECK(cudaLaunchKernelEx(&config, Meet, device_out, arrived));
  CHECK(cudaStreamSynchronize(stream));

  CHECK(cudaMemcpy(out.data(), device_out, words * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device_out));
  CHECK(cudaFree(arrived));
  for (int i = 0; i < words; ++i) {
    const unsigned block = i / 128;
    expected[i] = (7u + block) * 31u + 11u + block + (i < kMeeting ? 4000012u : 0u);
  }
  Checksum sum;
  sum.Add(out);
  std::printf("3 launches with attributes, last word %u\n", out[words - 1]);
  return Report("launch_ex", out == expected, sum);
}
