// What a preemptible variant costs and how fast it leaves, with nothing else of Cupola: the kernel
// and its variant, launched through the driver API by this program. For each block duration and L:
// the variant's time against the plain grid's, in turns; from a yield request to the last worker
// gone; the same to a part of the SMs.
//
//   variant_bench PLAIN.cubin SIDE.cubin [seconds]
//
// PLAIN holds `spin(float* out, int iterations)`, 256 threads a block; SIDE its variant, as the pass
// makes it. Prints one JSON object: microseconds, one figure a round.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

#include "device/runtime/preempt_control.h"

namespace {

using cupola::runtime::ControlSlot;
using cupola::runtime::HostStatus;
using cupola::runtime::PreemptParams;
using cupola::runtime::ReturnedList;
using cupola::runtime::YieldLine;
using Clock = std::chrono::steady_clock;

constexpr unsigned kThreads = 256;
constexpr double kStopLimitUs = 200'000;

#define DRIVER_CALLS(X)                                                                        \
  X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuModuleLoad)      \
  X(cuModuleGetFunction) X(cuMemAlloc_v2) X(cuMemsetD8_v2) X(cuMemHostAlloc)                   \
  X(cuMemHostGetDevicePointer_v2) X(cuStreamCreateWithPriority) X(cuStreamSynchronize)         \
  X(cuEventCreate) X(cuEventRecord) X(cuEventElapsedTime) X(cuEventSynchronize) X(cuLaunchKernel) \
  X(cuStreamWaitValue32_v2) X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                     \
  X(cuDeviceGetAttribute) X(cuFuncGetAttribute)
#define DECLARE(name) decltype(&name) name##_ = nullptr;
DRIVER_CALLS(DECLARE)

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "variant_bench: %s: error %d\n", what, static_cast<int>(result));
  std::exit(3);
}
#define CALL(name, ...) Check(name##_(__VA_ARGS__), #name)

double SinceUs(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// One stream, one slot, one launch at a time.
class Bench {
 public:
  Bench(const char* plain, const char* side) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) {
      std::fprintf(stderr, "variant_bench: no libcuda.so.1\n");
      std::exit(77);
    }
#define FIND(name) name##_ = reinterpret_cast<decltype(&name)>(dlsym(driver, #name));
    DRIVER_CALLS(FIND)
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoad, &module, plain);
    CALL(cuModuleGetFunction, &plain_, module, "spin");
    CALL(cuModuleLoad, &module, side);
    CALL(cuModuleGetFunction, &variant_, module, "spin__cupola_preemptible");
    CALL(cuDeviceGetAttribute, &sms_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident_, variant_, kThreads, 0);
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &plain_resident_, plain_, kThreads, 0);
    CALL(cuStreamCreateWithPriority, &stream_, CU_STREAM_NON_BLOCKING, 0);
    CALL(cuStreamCreateWithPriority, &helper_, CU_STREAM_NON_BLOCKING, -1);
    CALL(cuEventCreate, &begin_, 0);
    CALL(cuEventCreate, &end_, 0);
    CALL(cuMemAlloc_v2, &out_, 4u << 20);
    CALL(cuMemAlloc_v2, &slot_, sizeof(ControlSlot));
    CALL(cuMemAlloc_v2, &returned_, sizeof(ReturnedList));
    CALL(cuMemsetD8_v2, slot_, 0, sizeof(ControlSlot));
    CALL(cuMemsetD8_v2, returned_, 0, sizeof(ReturnedList));
    void* host = nullptr;
    CALL(cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    std::memset(host, 0, 4096);
    status_ = static_cast<HostStatus*>(host);
    yield_ = reinterpret_cast<YieldLine*>(static_cast<char*>(host) + 1024);
    CALL(cuMemHostGetDevicePointer_v2, &status_device_, status_, 0);
    CALL(cuMemHostGetDevicePointer_v2, &yield_device_, yield_, 0);
  }

  void set_look_after_ns(uint32_t ns) { look_after_ns_ = ns; }
  void set_interleaved(bool interleaved) { is_interleaved_ = interleaved; }
  int sms() const { return sms_; }
  int resident() const { return resident_; }
  int plain_resident() const { return plain_resident_; }
  int Registers(bool variant) {
    int registers = 0;
    CALL(cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, variant ? variant_ : plain_);
    return registers;
  }

  /// `guarded`: with a guard that has passed before it is reached.
  double PlainUs(unsigned blocks, int iterations, bool guarded = false) {
    void* arguments[] = {&out_, &iterations};
    CALL(cuEventRecord, begin_, stream_);
    CALL(cuLaunchKernel, plain_, blocks, 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr);
    if (guarded) Guard();
    CALL(cuEventRecord, end_, stream_);
    return ElapsedUs();
  }

  /// `guarded`: with the guard between the kernel and the second event.
  double VariantUs(unsigned blocks, int iterations, unsigned batch, bool guarded = true) {
    Begin(blocks, batch);
    CALL(cuEventRecord, begin_, stream_);
    LaunchPhysical(stream_, iterations, Workers(blocks));
    if (guarded) Guard();
    CALL(cuEventRecord, end_, stream_);
    const double us = ElapsedUs();
    End(blocks);
    return us;
  }

  /// From the request to the last worker gone; then resumes and waits. Negative: it was already over.
  double StopUs(unsigned blocks, int iterations, unsigned batch, double after_us) {
    Begin(blocks, batch);
    LaunchPhysical(stream_, iterations, Workers(blocks));
    Guard();
    const auto start = Clock::now();
    while (SinceUs(start) < after_us) {
    }
    const auto asked = Clock::now();
    std::atomic_ref(yield_->sm_bound).store(cupola::runtime::kAllSms);
    std::atomic_ref(yield_->requests).store(1);
    double us = 0;
    while (std::atomic_ref(status_->ended[0]).load() != params_.tag) {
      us = SinceUs(asked);
      if (us > kStopLimitUs) {
        std::fprintf(stderr, "variant_bench: does not stop\n");
        std::exit(4);
      }
    }
    us = SinceUs(asked);
    std::atomic_ref(yield_->requests).store(0);
    const bool over = std::atomic_ref(status_->done).load() == params_.sequence;
    if (!over) {
      params_.base_next = base_next_;
      ++params_.tag;
      LaunchPhysical(helper_, iterations, Workers(blocks));
    }
    CALL(cuStreamSynchronize, stream_);
    CALL(cuStreamSynchronize, helper_);
    End(blocks);
    return over ? -1 : us;
  }

 private:
  unsigned Workers(unsigned blocks) const {
    return std::min(blocks, static_cast<unsigned>(sms_ * resident_));
  }
  void Begin(unsigned blocks, unsigned batch) {
    const cupola::runtime::ClaimShape claims =
        cupola::runtime::ShapeClaims(blocks, Workers(blocks), batch, is_interleaved_);
    params_ = {.slot = slot_, .returned = returned_, .status = status_device_,
               .yield_line = yield_device_, .grid = {blocks, 1, 1}, .total_blocks = blocks,
               .base_next = base_next_, .base_completed = base_completed_,
               .sequence = sequence_ += 1, .batch = claims.batch, .physical = 0,
               .tag = params_.tag % 0xFFF0 + 1, .workers = 0, .flags = 0,
               .look_after_ns = look_after_ns_, .stride = claims.stride,
               .full_until = claims.full_until,
               .fresh_after_ns = std::min(look_after_ns_, 4500u)};
    cupola::runtime::SetPolls(params_, 2000);
    cupola::runtime::SetSteady(params_);
  }
  void LaunchPhysical(CUstream stream, int iterations, unsigned workers) {
    params_.workers = workers;
    void* arguments[] = {&out_, &iterations, &params_};
    CALL(cuLaunchKernel, variant_, workers, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
  }
  void Guard() {
    CALL(cuStreamWaitValue32_v2, stream_, slot_ + offsetof(ControlSlot, done), params_.sequence,
         CU_STREAM_WAIT_VALUE_GEQ);
  }
  void End(unsigned blocks) {
    base_next_ = std::atomic_ref(status_->next_final[0]).load();
    base_completed_ += blocks;
    if (std::atomic_ref(status_->done).load() == params_.sequence) return;
    std::fprintf(stderr, "variant_bench: the guard passed but the host word says otherwise\n");
    std::exit(5);
  }
  double ElapsedUs() {
    float ms = 0;
    CALL(cuEventSynchronize, end_);
    CALL(cuEventElapsedTime, &ms, begin_, end_);
    return ms * 1e3;
  }

  CUfunction plain_ = nullptr, variant_ = nullptr;
  CUstream stream_ = nullptr, helper_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  CUdeviceptr out_ = 0, slot_ = 0, returned_ = 0, status_device_ = 0, yield_device_ = 0;
  HostStatus* status_ = nullptr;
  YieldLine* yield_ = nullptr;
  PreemptParams params_ = {};
  uint32_t base_next_ = 0, base_completed_ = 0, sequence_ = 0;
  uint32_t look_after_ns_ = 0;
  bool is_interleaved_ = true;
  int sms_ = 0, resident_ = 0, plain_resident_ = 0;
};

double Median(std::vector<double> values, double at = 0.5) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(at * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: variant_bench PLAIN.cubin SIDE.cubin [seconds]\n");
    return 2;
  }
  const double seconds = argc > 3 ? std::atof(argv[3]) : 20;
  const auto start = Clock::now();
  Bench bench(argv[1], argv[2]);
  // What does not depend on the number of blocks: one short block for each worker.
  const unsigned fill = static_cast<unsigned>(bench.sms() * bench.resident());
  std::vector<double> fixed[4];
  for (int i = 0; i < 300; ++i) {
    fixed[0].push_back(bench.PlainUs(fill, 100));
    fixed[1].push_back(bench.PlainUs(fill, 100, true));
    fixed[2].push_back(bench.VariantUs(fill, 100, 16, false));
    fixed[3].push_back(bench.VariantUs(fill, 100, 16, true));
  }
  std::printf("{\"one_wave_us\": {\"plain\": %.2f, \"plain_guard\": %.2f, \"variant\": %.2f, "
              "\"variant_guard\": %.2f}, ",
              Median(fixed[0]), Median(fixed[1]), Median(fixed[2]), Median(fixed[3]));
  std::printf("\"registers\": [%d, %d], \"blocks_per_sm\": [%d, %d], \"cases\": [",
              bench.Registers(false), bench.Registers(true), bench.plain_resident(),
              bench.resident());
  struct Case {
    int iterations;
    unsigned blocks;
  };
  const Case cases[] = {{130, 1'500'000}, {1000, 300'000}, {2000, 150'000}, {20'000, 15'000}};
  struct Setting {
    unsigned batch;
    uint32_t look_after_ns;
  };
  const Setting settings[] = {{1, 8'000},  {4, 8'000},  {16, 4'000},
                              {16, 8'000}, {64, 8'000}, {64, 16'000}};
  const double share = seconds * 1e6 / static_cast<double>(std::size(cases) * std::size(settings));
  const char* comma = "";
  for (const Case& one : cases) {
    for (int i = 0; i < 3; ++i) bench.PlainUs(one.blocks, one.iterations);
    for (const auto& [batch, look_after_ns] : settings) {
      bench.set_look_after_ns(look_after_ns);
      std::vector<double> plain, variant, stops;
      const auto begun = Clock::now();
      while (plain.size() < 5 || (SinceUs(begun) < share * 0.6 && plain.size() < 200)) {
        plain.push_back(bench.PlainUs(one.blocks, one.iterations));
        variant.push_back(bench.VariantUs(one.blocks, one.iterations, batch));
      }
      while (stops.size() < 5 || (SinceUs(begun) < share && stops.size() < 500)) {
        const double after = 300 + 37.0 * static_cast<double>(stops.size() % 40);
        const double us = bench.StopUs(one.blocks, one.iterations, batch, after);
        if (us >= 0) stops.push_back(us);
      }
      std::printf("%s\n {\"iterations\": %d, \"batch\": %u, \"look_after_ns\": %u, \"rounds\": %zu, \"plain_us\": %.2f, "
                  "\"variant_us\": %.2f, \"slower_pct\": %.2f, \"stops\": %zu, "
                  "\"stop_p50_us\": %.1f, \"stop_p99_us\": %.1f}",
                  comma, one.iterations, batch, look_after_ns, plain.size(), Median(plain), Median(variant),
                  (Median(variant) / Median(plain) - 1) * 100, stops.size(), Median(stops),
                  Median(stops, 0.99));
      comma = ",";
      std::fflush(stdout);
    }
  }
  std::printf("\n], \"seconds\": %.1f}\n", SinceUs(start) / 1e6);
  return 0;
}
