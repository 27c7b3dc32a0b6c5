// A module that is loaded, used for rows of small launches, unloaded, and loaded again.
#include <cstdio>
#include <vector>

#include "driver_api_kernels_fatbin.h"
#include "support/check_driver.h"
#include "support/checksum.h"

namespace {

constexpr unsigned kThreads = 96, kLaunches = 60, kRounds = 4, kBy = 4;

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr data = 0;
  constexpr size_t kBytes = kThreads * sizeof(unsigned);
  CHECK(cuMemAlloc(&data, kBytes));
  std::vector<unsigned> values(kThreads), expected(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) expected[i] = values[i] = i * 2654435761u + 1;
  CHECK(cuMemcpyHtoD(data, values.data(), kBytes));
  for (unsigned round = 0; round < kRounds; ++round) {
    CUmodule module = nullptr;
    CUfunction shift = nullptr;
    CHECK(cuModuleLoadData(&module, driver_api_kernels_fatbin));
    CHECK(cuModuleGetFunction(&shift, module, "Shift"));
    // One rotation more each round, so that no round undoes another.
    for (unsigned i = 0; i < kLaunches + round; ++i) {
      int n = kThreads;
      void* arguments[] = {&data, &n};
      CHECK(cuLaunchKernel(shift, 1, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr));
      for (unsigned& value : expected) value = value << kBy | value >> (32 - kBy);
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuModuleUnload(module));
  }
  CHECK(cuMemcpyDtoH(values.data(), data, kBytes));
  unsigned wrong = 0;
  for (unsigned i = 0; i < kThreads; ++i) wrong += values[i] != expected[i];
  Checksum sum;
  sum.Add(values);
  std::printf("wrong %u checksum %016llx\n", wrong,
              static_cast<unsigned long long>(sum.value()));
  return wrong == 0 ? 0 : 1;
}
