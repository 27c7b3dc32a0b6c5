// What launching an empty kernel costs the host, by the driver API: batches of launches on one
// stream, each batch timed as a whole, the device drained after each so that the queue never fills.
//
//   launch_bench time [batches]       by the driver that dlopen("libcuda.so.1") gives; run it plain
//                                     and under `cupola run` in turns
//   launch_bench ab DRIVER [batches]  under Cupola: batches through it and past it in turns, in one
//                                     process; DRIVER is the real driver by another name (a
//                                     symbolic link whose name does not begin with "libcuda.so")
//
// Prints one JSON object: nanoseconds a launch, one figure a batch, in the order they were made.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

namespace {

constexpr int kLaunchesOfABatch = 64;
constexpr int kWarmUp = 20;
constexpr char kEmptyKernel[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n";

using Launch = decltype(&cuLaunchKernel);
using Synchronize = decltype(&cuStreamSynchronize);

template <typename Function>
Function Find(void* handle, const char* name) {
  const auto found = reinterpret_cast<Function>(dlsym(handle, name));
  if (found == nullptr) {
    std::fprintf(stderr, "launch_bench: no %s\n", name);
    std::exit(2);
  }
  return found;
}

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "launch_bench: %s: error %d\n", what, static_cast<int>(result));
  std::exit(3);
}

struct Kernel {
  CUfunction function = nullptr;
  CUstream stream = nullptr;
};

Kernel Prepare(void* driver) {
  Kernel kernel;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  Check(Find<decltype(&cuInit)>(driver, "cuInit")(0), "cuInit");
  Check(Find<decltype(&cuDeviceGet)>(driver, "cuDeviceGet")(&device, 0), "cuDeviceGet");
  Check(Find<decltype(&cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain")(&context,
                                                                                      device),
        "cuDevicePrimaryCtxRetain");
  Check(Find<decltype(&cuCtxSetCurrent)>(driver, "cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  Check(Find<decltype(&cuModuleLoadData)>(driver, "cuModuleLoadData")(&module, kEmptyKernel),
        "cuModuleLoadData");
  Check(Find<decltype(&cuModuleGetFunction)>(driver, "cuModuleGetFunction")(&kernel.function,
                                                                            module, "empty"),
        "cuModuleGetFunction");
  Check(Find<decltype(&cuStreamCreate)>(driver, "cuStreamCreate")(&kernel.stream,
                                                                  CU_STREAM_NON_BLOCKING),
        "cuStreamCreate");
  return kernel;
}

double TimeBatch(Launch launch, Synchronize synchronize, const Kernel& kernel) {
  const auto start = std::chrono::steady_clock::now();
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < kLaunchesOfABatch; ++i) {
    result = launch(kernel.function, 1, 1, 1, 32, 1, 1, 0, kernel.stream, nullptr, nullptr);
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  Check(result, "cuLaunchKernel");
  Check(synchronize(kernel.stream), "cuStreamSynchronize");
  return time.count() / kLaunchesOfABatch;
}

void Print(const char* name, const std::vector<double>& values) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.1f", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

}  // namespace

int main(int argc, char** argv) {
  const bool ab = argc >= 3 && std::strcmp(argv[1], "ab") == 0;
  if (!ab && (argc < 2 || std::strcmp(argv[1], "time") != 0)) {
    std::fprintf(stderr, "usage: launch_bench time [batches] | launch_bench ab DRIVER [batches]\n");
    return 1;
  }
  const int count_at = ab ? 3 : 2;
  const int batches = argc > count_at ? std::atoi(argv[count_at]) : 200;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "launch_bench: %s\n", dlerror());
    return 2;
  }
  const Kernel kernel = Prepare(driver);
  const auto launch = Find<Launch>(driver, "cuLaunchKernel");
  const auto synchronize = Find<Synchronize>(driver, "cuStreamSynchronize");
  Launch past = launch;
  if (ab) {
    void* real = dlopen(argv[2], RTLD_NOW);
    if (real == nullptr) {
      std::fprintf(stderr, "launch_bench: %s\n", dlerror());
      return 2;
    }
    past = Find<Launch>(real, "cuLaunchKernel");
    if (past == launch) {
      std::fprintf(stderr, "launch_bench: not under Cupola: both launches are the same\n");
      return 4;
    }
  }
  std::vector<double> through, plain;
  for (int i = -kWarmUp; i < batches; ++i) {
    // In turns, the one that goes first changing too.
    const double first = TimeBatch(i % 2 == 0 ? launch : past, synchronize, kernel);
    const double second = ab ? TimeBatch(i % 2 == 0 ? past : launch, synchronize, kernel) : 0;
    if (i < 0) continue;
    through.push_back(i % 2 == 0 || !ab ? first : second);
    if (ab) plain.push_back(i % 2 == 0 ? second : first);
  }
  std::printf("{\"launches_of_a_batch\": %d, ", kLaunchesOfABatch);
  Print("ns", through);
  if (ab) {
    std::printf(", ");
    Print("past_ns", plain);
  }
  std::printf("}\n");
  return 0;
}
