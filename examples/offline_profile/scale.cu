// One kernel over as many values as it is told, LAUNCHES times. scale COUNT LAUNCHES
#include <vector>

#include "check.h"

__global__ void Scale(float* values, int count, float factor) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    for (int k = 0; k < 64; ++k) values[i] = values[i] * factor + 1.0f;
  }
}

int main(int, char** argv) {
  const int count = std::atoi(argv[1]), launches = std::atoi(argv[2]);
  float* values;
  std::vector<float> host(count);
  Check(cudaMalloc(&values, count * sizeof(float)));
  Check(cudaMemset(values, 0, count * sizeof(float)));
  for (int i = 0; i < launches; ++i) Scale<<<64, 128>>>(values, count, 0.5f);
  Check(cudaMemcpy(host.data(), values, count * sizeof(float), cudaMemcpyDeviceToHost));
  std::printf("%016llx\n", static_cast<unsigned long long>(Checksum(host.data(), host.size())));
}
