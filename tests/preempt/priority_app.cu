// Launches a kernel that has no variant: five times as it is, three times with a launch priority
// that the program chose, and once more into a graph.
#include <cstdint>
#include <cstdio>

#include "tests/apps/support/check_runtime.h"

extern "C" __global__ void Count(uint32_t* count) { atomicAdd(count, 1u); }

namespace {

void LaunchWithPriority(cudaStream_t stream, uint32_t* count, int priority) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  attribute.val.priority = priority;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, Count, count));
}

}  // namespace

int main() {
  uint32_t* count;
  uint32_t seen = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&count, 4));
  CHECK(cudaMemset(count, 0, 4));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 5; ++i) Count<<<1, 1, 0, stream>>>(count);
  for (int i = 0; i < 3; ++i) LaunchWithPriority(stream, count, -2);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Count<<<1, 1, 0, stream>>>(count);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&seen, count, 4, cudaMemcpyDeviceToHost));
  std::printf("%u launches ran\n", seen);
  return seen == 9 ? 0 : 1;
}
