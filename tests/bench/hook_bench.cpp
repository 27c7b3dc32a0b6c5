// What the launch hook adds to a launch, over the null driver: the same cuLaunchKernel through the
// hook and past it, in turns. A reader takes the records meanwhile, as `cupola run` does.
//
//   LD_PRELOAD=.../libcupola.so CUPOLA_DRIVER=.../null_driver/libcuda.so.1
//       [CUPOLA_RECORDS=/dev/shm] [CUPOLA_TIMING=host] hook_bench .../null_driver/past_cupola.so
//
// Prints one JSON object; times in nanoseconds:
//   hook_ns_p50, hook_ns_p99  percentiles of single launches, fenced and timed alone, less the
//                             median of the launch past the hook, timed the same way (the clock's
//                             own cost is in both)
//   hook_ns_batch_p50         of 16 launches without fences between them, less the same past the
//                             hook, a launch: what a program that launches in a loop pays
//   plain_ns_p50, _p99        the launch past the hook, the clock included
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/settings/variables.h"
#include "profiles/launch_ring_reader.h"
#include "tests/bench/ticks.h"

namespace {

constexpr int kRounds = 100;
constexpr int kLaunchesOfARound = 1024;
constexpr int kWarmUpRounds = 10;
constexpr int kBatch = 16;  // divides the launches of a round

using Launch = decltype(&cuLaunchKernel);

// Ticks from before `batch` calls to after them, fenced, for as many batches as make a round.
void Measure(Launch launch, CUfunction function, CUstream stream, int batch,
             std::vector<uint64_t>* ticks) {
  void* params[] = {nullptr};
  unsigned id;
  for (int i = 0; i < kLaunchesOfARound; i += batch) {
    _mm_lfence();
    const uint64_t start = __rdtsc();
    for (int j = 0; j < batch; ++j) launch(function, 1, 2, 3, 4, 5, 6, 7, stream, params, nullptr);
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

// The consumer of this process's records: takes them from its own thread, resting as `cupola run`
// does.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    auto opened = cupola::LaunchRingReader::Open(path);
    if (!opened) return;
    reader_ = std::move(*opened);
    thread_ = std::thread([this] {
      while (!stop_.load()) {
        const auto taken =
            reader_->Drain(cupola::WriterState::kAlive, [](const cupola::Launch&) {});
        taken_.fetch_add(taken ? *taken : 0);
        usleep(1000);
      }
    });
  }
  ~Reader() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    unlink(path_.c_str());
  }
  // Until what was launched so far has been taken: lanes and ring do not fill. Awake, since what is
  // measured next is the hook and not a processor that comes out of its sleep.
  void WaitFor(uint64_t launches) const {
    while (reader_ != nullptr && taken_.load() < launches) _mm_pause();
  }
  uint64_t dropped() const { return reader_ != nullptr ? reader_->totals().dropped : 0; }
  bool active() const { return reader_ != nullptr; }

 private:
  std::string path_;
  std::unique_ptr<cupola::LaunchRingReader> reader_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> taken_{0};
  std::thread thread_;
};

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

  const char* folder = cupola::settings::Text("CUPOLA_RECORDS");
  const char* timing = getenv(cupola::settings::Name("CUPOLA_TIMING"));
  const Reader reader(folder == nullptr
                          ? ""
                          : std::string(folder) + "/" + std::to_string(getpid()) + ".launches");
  std::vector<uint64_t> with_ticks, without_ticks, with_batches, without_batches;
  uint64_t launches = 0;
  for (int round = -kWarmUpRounds; round < kRounds; ++round) {
    if (round == 0) {
      for (auto* ticks : {&with_ticks, &without_ticks, &with_batches, &without_batches}) {
        ticks->clear();
        ticks->reserve(kRounds * kLaunchesOfARound);
      }
    }
    Measure(without, function, stream, 1, &without_ticks);
    Measure(with, function, stream, 1, &with_ticks);
    Measure(without, function, stream, kBatch, &without_batches);
    Measure(with, function, stream, kBatch, &with_batches);
    launches += 2 * kLaunchesOfARound;
    reader.WaitFor(launches);
  }
  const double scale = 1 / TicksOfANanosecond();
  const double plain_p50 = Percentile(without_ticks, 0.5) * scale;
  printf("{\"bench\": \"hook\", \"records\": %s, \"timing\": \"%s\", \"launches\": %zu, "
         "\"dropped\": %llu, \"hook_ns_p50\": %.1f, \"hook_ns_p99\": %.1f, "
         "\"hook_ns_batch_p50\": %.1f, "
         "\"plain_ns_p50\": %.1f, \"plain_ns_p99\": %.1f}\n",
         reader.active() ? "true" : "false", timing != nullptr ? timing : "none", with_ticks.size(),
         static_cast<unsigned long long>(reader.dropped()),
         Percentile(with_ticks, 0.5) * scale - plain_p50,
         Percentile(with_ticks, 0.99) * scale - plain_p50,
         (Percentile(with_batches, 0.5) - Percentile(without_batches, 0.5)) * scale / kBatch,
         plain_p50, Percentile(without_ticks, 0.99) * scale);
  return 0;
}
