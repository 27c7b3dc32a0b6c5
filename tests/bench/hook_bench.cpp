// What the launch hook adds to a launch, with records on, over the null driver: the same cuLaunchKernel
// through the hook and past it, in turns, each call timed alone.
//
//   LD_PRELOAD=.../libcupola.so CUPOLA_DRIVER=.../null_driver/libcuda.so.1 CUPOLA_RECORDS=/dev/shm
//       hook_bench .../null_driver/past_cupola.so
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>
#include <x86intrin.h>

namespace {

constexpr int kRounds = 60;
constexpr int kLaunchesOfARound = 1000;  // all of them fit into the ring: none is dropped

using Launch = decltype(&cuLaunchKernel);

double TicksOfANanosecond() {
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  const uint64_t ticks = __rdtsc();
  double ns = 0;
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = static_cast<double>(now.tv_sec - start.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec - start.tv_nsec);
  } while (ns < 50e6);
  return static_cast<double>(__rdtsc() - ticks) / ns;
}

// Ticks from before the call to after it, fenced, for each launch.
void Measure(Launch launch, CUfunction function, CUstream stream, std::vector<uint64_t>* ticks) {
  void* params[] = {nullptr};
  unsigned id;
  for (int i = 0; i < kLaunchesOfARound; ++i) {
    _mm_lfence();
    const uint64_t start = __rdtsc();
    launch(function, 1, 2, 3, 4, 5, 6, 7, stream, params, nullptr);
    const uint64_t end = __rdtscp(&id);
    ticks->push_back(end - start);
  }
}

double Percentile(std::vector<uint64_t> ticks, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(ticks.size() - 1));
  std::nth_element(ticks.begin(), ticks.begin() + static_cast<ptrdiff_t>(at), ticks.end());
  return static_cast<double>(ticks[at]);
}

template <typename Function>
Function Find(void* handle, const char* name) {
  const auto found = reinterpret_cast<Function>(dlsym(handle, name));
  if (found == nullptr) exit(2);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  void* hooked = dlopen("libcuda.so.1", RTLD_NOW);
  if (argc != 2 || hooked == nullptr) return 2;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  Find<decltype(&cuModuleLoadData)>(hooked, "cuModuleLoadData")(&module, "image");
  Find<decltype(&cuModuleGetFunction)>(hooked, "cuModuleGetFunction")(&function, module, "kernel");
  Find<decltype(&cuStreamCreate)>(hooked, "cuStreamCreate")(&stream, 0);
  void* plain = dlopen(argv[1], RTLD_NOW);
  if (plain == nullptr) return 2;
  const auto with = Find<Launch>(hooked, "cuLaunchKernel");
  const auto without = Find<Launch>(plain, "cuLaunchKernel");
  if (with == without) return 3;  // not preloaded: there is nothing to measure

  std::vector<uint64_t> with_ticks, without_ticks;
  with_ticks.reserve(kRounds * kLaunchesOfARound);
  without_ticks.reserve(kRounds * kLaunchesOfARound);
  for (int round = 0; round < kRounds; ++round) {
    Measure(without, function, stream, &without_ticks);
    Measure(with, function, stream, &with_ticks);
  }
  const double scale = 1 / TicksOfANanosecond();
  const auto ns = [&](const std::vector<uint64_t>& ticks, double share) {
    return Percentile(ticks, share) * scale;
  };
  printf("{\"bench\": \"hook\", \"launches\": %d, \"plain_p50_ns\": %.1f, \"plain_p99_ns\": %.1f, "
         "\"hooked_p50_ns\": %.1f, \"hooked_p99_ns\": %.1f, \"added_p50_ns\": %.1f, "
         "\"added_p99_ns\": %.1f}\n",
         kRounds * kLaunchesOfARound, ns(without_ticks, 0.5), ns(without_ticks, 0.99),
         ns(with_ticks, 0.5), ns(with_ticks, 0.99), ns(with_ticks, 0.5) - ns(without_ticks, 0.5),
         ns(with_ticks, 0.99) - ns(without_ticks, 0.99));
  if (const char* folder = getenv("CUPOLA_RECORDS"); folder != nullptr) {
    unlink((std::string(folder) + "/" + std::to_string(getpid()) + ".launches").c_str());
  }
  return 0;
}
