// An interactive program: a short kernel every 30 ms. Prints a checksum, and on standard error how
// long its requests took; then it waits until its standard input ends. interactive REQUESTS
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "check.h"

__global__ void Answer(uint32_t* out, uint32_t request) {
  const uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
  out[id] = out[id] * 31 + request * id;
}

int main(int, char** argv) {
  using Clock = std::chrono::steady_clock;
  const int requests = std::atoi(argv[1]), count = 512;
  uint32_t* device;
  std::vector<uint32_t> host(count);
  std::vector<double> took_ms;
  Check(cudaMalloc(&device, count * sizeof(uint32_t)));
  Check(cudaMemset(device, 0, count * sizeof(uint32_t)));
  for (int i = 0; i < requests; ++i) {
    usleep(30000);
    const auto start = Clock::now();
    Answer<<<4, 128>>>(device, i);
    Check(cudaDeviceSynchronize());
    took_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  Check(cudaMemcpy(host.data(), device, count * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  std::sort(took_ms.begin(), took_ms.end());
  std::fprintf(stderr, "  a request took %.2f ms (median of %d)\n", took_ms[requests / 2],
               requests);
  std::printf("interactive %016llx\n",
              static_cast<unsigned long long>(Checksum(host.data(), count)));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}
