// What a launch call costs the host where an arbiter runs: launches timed one by one, in windows
// that are waited for, so that no queue fills. Kernels of PTX, by the driver API.
//
//   arbiter_bench ptx NAME               prints the PTX of a module, for `cupola build`
//   arbiter_bench time KIND              by the driver that dlopen("libcuda.so.1") gives
//   arbiter_bench ab DRIVER KIND         under Cupola: windows through it and past it in turns, in
//                                        random order; DRIVER is the real driver by another name
//   arbiter_bench idle KIND              launches a few, prints "ready", and waits for the end of its
//                                        input: a program that is there and wants nothing
//
//   further: --windows N  --blocks N  --block-ns N  --seed N
//            --evict-kb N    reads so much memory before each launch: what a program that does more
//                            than launch leaves of Cupola in the caches
//            --legacy 1      on the legacy default stream, not on one of its own
//            --pause-us N    sleeps so long before each window
//            --core N        the launching thread, and it alone, stays there once it is warm
//
// KIND: long (blocks that fill the GPU several times over), short (one block of a kernel that has a
// variant, if one was built), unknown (one block of a kernel that has none: module "unknown" is not
// to be built). Prints one JSON object: nanoseconds of each call, in order; the first of each
// window follows a synchronising call. "blocks_wrong": blocks that did not run exactly once (on a
// driver that runs nothing: all).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <sched.h>
#include <x86intrin.h>

#include "tests/bench/ticks.h"

namespace {

constexpr int kWindow = 16;
constexpr int kWarmUpWindows = 8;
constexpr unsigned kThreads = 256;

// Each block takes `nanoseconds`, then counts itself.
constexpr char kPtx[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry NAME(.param .u64 counter, .param .u64 nanoseconds)
{
  .reg .pred %p<3>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<7>;
  mov.u64 %rd1, %globaltimer;
  ld.param.u64 %rd2, [nanoseconds];
wait:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd1;
  setp.lt.u64 %p1, %rd4, %rd2;
  @%p1 bra wait;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra done;
  ld.param.u64 %rd5, [counter];
  cvta.to.global.u64 %rd6, %rd5;
  red.global.add.u64 [%rd6], 1;
done:
  ret;
}
)";

using Launch = decltype(&cuLaunchKernel);
using Synchronize = decltype(&cuStreamSynchronize);

struct Options {
  const char* driver = nullptr;
  std::string kind;
  bool is_idle = false;
  int windows = 128;
  unsigned blocks = 10'560;  // ten rounds of what an H200 holds
  uint64_t block_ns = 20'000;
  unsigned seed = 1;
  size_t evict_bytes = 0;
  uint64_t pause_us = 0;
  bool legacy = false;
  int core = -1;
};

struct Kernel {
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr counter = 0;
  unsigned blocks = 1;
  uint64_t block_ns = 0;
};

/// The two calls of one way to the driver, and what was measured of it.
struct Way {
  Launch launch = nullptr;
  Synchronize synchronize = nullptr;
  std::vector<uint64_t> ticks = {};
};

std::string PtxOf(const std::string& name) {
  std::string ptx = kPtx;
  return ptx.replace(ptx.find("NAME"), 4, name);
}

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "arbiter_bench: %s: error %d\n", what, static_cast<int>(result));
  std::exit(3);
}

template <typename Function>
Function Find(void* driver, const char* name) {
  void* const found = driver != nullptr ? dlsym(driver, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "arbiter_bench: no %s\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function>(found);
}

Kernel Prepare(void* driver, const Options& options) {
  Kernel kernel;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  const std::string ptx = PtxOf(options.kind);
  const auto init = Find<decltype(&cuInit)>(driver, "cuInit");
  const auto get_device = Find<decltype(&cuDeviceGet)>(driver, "cuDeviceGet");
  const auto retain = Find<decltype(&cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain");
  const auto set_current = Find<decltype(&cuCtxSetCurrent)>(driver, "cuCtxSetCurrent");
  const auto load = Find<decltype(&cuModuleLoadData)>(driver, "cuModuleLoadData");
  const auto get_function = Find<decltype(&cuModuleGetFunction)>(driver, "cuModuleGetFunction");
  const auto create = Find<decltype(&cuStreamCreate)>(driver, "cuStreamCreate");
  const auto allocate = Find<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2");
  const auto fill = Find<decltype(&cuMemsetD8)>(driver, "cuMemsetD8_v2");
  const auto wait = Find<decltype(&cuCtxSynchronize)>(driver, "cuCtxSynchronize");
  Check(init(0), "cuInit");
  Check(get_device(&device, 0), "cuDeviceGet");
  Check(retain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(set_current(context), "cuCtxSetCurrent");
  Check(load(&module, ptx.c_str()), "cuModuleLoadData");
  Check(get_function(&kernel.function, module, options.kind.c_str()), "cuModuleGetFunction");
  if (!options.legacy) Check(create(&kernel.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  Check(allocate(&kernel.counter, 8), "cuMemAlloc");
  Check(fill(kernel.counter, 0, 8), "cuMemsetD8");
  Check(wait(), "cuCtxSynchronize");  // the stream does not wait for the fill
  if (options.kind == "long") {
    kernel.blocks = options.blocks;
    kernel.block_ns = options.block_ns;
  }
  return kernel;
}

Way WayOf(void* driver) {
  return {Find<Launch>(driver, "cuLaunchKernel"),
          Find<Synchronize>(driver, "cuStreamSynchronize")};
}

void Evict(std::vector<char>* memory) {
  for (size_t i = 0; i < memory->size(); i += 64) {
    asm volatile("" ::"r"((*memory)[i]) : "memory");
  }
}

void Sleep(uint64_t us) {
  if (us == 0) return;
  const timespec nap{static_cast<time_t>(us / 1'000'000),
                     static_cast<long>(us % 1'000'000) * 1'000};
  nanosleep(&nap, nullptr);
}

void TimeWindow(Way* way, Kernel* kernel, std::vector<char>* evict, uint64_t pause_us = 0) {
  Sleep(pause_us);
  void* params[] = {&kernel->counter, &kernel->block_ns};
  CUresult result = CUDA_SUCCESS;
  unsigned id;
  for (int i = 0; i < kWindow && result == CUDA_SUCCESS; ++i) {
    Evict(evict);
    _mm_lfence();
    const uint64_t start = __rdtsc();
    result = way->launch(kernel->function, kernel->blocks, 1, 1, kThreads, 1, 1, 0, kernel->stream,
                         params, nullptr);
    way->ticks.push_back(__rdtscp(&id) - start);
  }
  Check(result, "cuLaunchKernel");
  Check(way->synchronize(kernel->stream), "cuStreamSynchronize");
}

void Print(const char* name, const std::vector<uint64_t>& ticks, double ticks_of_ns) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < ticks.size(); ++i) {
    std::printf("%s%.0f", i == 0 ? "" : ", ", static_cast<double>(ticks[i]) / ticks_of_ns);
  }
  std::printf("], ");
}

// Until Cupola's own threads are under way; then they are left where they are.
void WarmUp(const Options& options, Kernel* kernel, Way* through, Way* past) {
  std::vector<char> nothing;
  for (int i = 0; i < kWarmUpWindows; ++i) {
    TimeWindow(through, kernel, &nothing);
    if (past->launch != nullptr) TimeWindow(past, kernel, &nothing);
    Sleep(5'000);
  }
  if (options.core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(options.core, &cores);
  (void)sched_setaffinity(0, sizeof(cores), &cores);
}

// Windows of both ways in turns, which one goes first being random.
void Measure(const Options& options, Kernel* kernel, Way* through, Way* past) {
  WarmUp(options, kernel, through, past);
  std::mt19937 prng(options.seed);
  std::vector<char> evict(options.evict_bytes);
  for (Way* way : {through, past}) {
    way->ticks.clear();
    way->ticks.reserve(static_cast<size_t>(options.windows) * kWindow);
  }
  for (int i = 0; i < options.windows; ++i) {
    const bool past_first = (prng() & 1) != 0;
    if (past->launch != nullptr && past_first) {
      TimeWindow(past, kernel, &evict, options.pause_us);
    }
    TimeWindow(through, kernel, &evict, options.pause_us);
    if (past->launch != nullptr && !past_first) {
      TimeWindow(past, kernel, &evict, options.pause_us);
    }
  }
}

bool Parse(int argc, char** argv, Options* options) {
  const bool ab = argc > 1 && std::strcmp(argv[1], "ab") == 0;
  options->is_idle = argc == 3 && std::strcmp(argv[1], "idle") == 0;
  if (!ab && !options->is_idle && (argc < 2 || std::strcmp(argv[1], "time") != 0)) return false;
  const int kind_at = ab ? 3 : 2;
  if (argc <= kind_at || (argc - kind_at) % 2 == 0) return false;
  if (ab) options->driver = argv[2];
  options->kind = argv[kind_at];
  for (int i = kind_at + 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const auto value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--windows") options->windows = static_cast<int>(value);
    else if (name == "--blocks") options->blocks = static_cast<unsigned>(value);
    else if (name == "--block-ns") options->block_ns = value;
    else if (name == "--evict-kb") options->evict_bytes = value << 10;
    else if (name == "--legacy") options->legacy = value != 0;
    else if (name == "--pause-us") options->pause_us = value;
    else if (name == "--core") options->core = static_cast<int>(value);
    else if (name == "--seed") options->seed = static_cast<unsigned>(value);
    else return false;
  }
  return options->kind == "long" || options->kind == "short" || options->kind == "unknown";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "ptx") == 0) {
    std::fputs(PtxOf(argv[2]).c_str(), stdout);
    return 0;
  }
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: arbiter_bench ptx NAME | time KIND [OPTION N]... | "
                         "ab DRIVER KIND [OPTION N]... | idle KIND\nKIND: long, short, unknown\n"
                         "OPTION: --windows, --blocks, --block-ns, --seed, --evict-kb, "
                         "--legacy, --pause-us, --core\n");
    return 1;
  }
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  Kernel kernel = Prepare(driver, options);
  Way through = WayOf(driver), past;
  if (options.driver != nullptr) {
    void* real = dlopen(options.driver, RTLD_NOW);
    past = WayOf(real);
    if (past.launch == through.launch) {
      std::fprintf(stderr, "arbiter_bench: not under Cupola: both launches are the same\n");
      return 4;
    }
  }
  if (options.is_idle) {
    WarmUp(options, &kernel, &through, &past);
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  }
  Measure(options, &kernel, &through, &past);
  uint64_t ran = 0;
  Check(Find<decltype(&cuMemcpyDtoH)>(driver, "cuMemcpyDtoH_v2")(&ran, kernel.counter, 8),
        "cuMemcpyDtoH");
  const uint64_t windows = static_cast<uint64_t>(options.windows) + kWarmUpWindows;
  const uint64_t expected =
      windows * kWindow * (past.launch != nullptr ? 2 : 1) * uint64_t{kernel.blocks};
  const double ticks_of_ns = TicksOfANanosecond();
  std::printf("{\"window\": %d, ", kWindow);
  Print("ns", through.ticks, ticks_of_ns);
  if (past.launch != nullptr) Print("past_ns", past.ticks, ticks_of_ns);
  std::printf("\"blocks_wrong\": %llu}\n",
              static_cast<unsigned long long>(std::max(ran, expected) - std::min(ran, expected)));
  return 0;
}
