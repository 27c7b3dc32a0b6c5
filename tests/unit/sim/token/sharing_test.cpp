// Kernels of several processes on the simulated device, by time slices.
#include <sys/mman.h>

#include <cstring>
#include <sstream>

#include "device/sim/exec/device.h"
#include "device/sim/token/token.h"
#include "tests/unit/sim/token/child.h"

namespace cupola::sim {
namespace {

// Each thread: x = x * 1664525 + 1013904223, `rounds` times from its index, to out[index].
constexpr char kKernels[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry churn(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  mov.u32 %r6, %r5;
LOOP:
  mad.lo.u32 %r6, %r6, 1664525, 1013904223;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra LOOP;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
.visible .entry await(.param .u64 word)
{
  .reg .pred %p;
  .reg .b32 %r1;
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [word];
LOOP:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p, %r1, 0;
  @%p bra LOOP;
  ret;
}
)";

/// A device with its token, in a child.
class SharedDevice {
 public:
  SharedDevice(const std::string& path, uint64_t slice_ns)
      : token_({path, slice_ns}),
        device_(Device::Create({.sm_count = 2, .memory_bytes = 64 << 20, .gate = &token_.gate()})),
        module_(device_->LoadPtx(kKernels, "kernels").value()) {}

  Device& device() { return *device_; }
  TokenCounters counters() const { return token_.counters(); }

  /// Runs a kernel; true when it ended well.
  template <typename... Values>
  bool Run(uint32_t kernel, Dim3 grid, Dim3 block, Values... values) {
    const KernelInfo& info = module_->kernels()[kernel];
    GridLaunch launch{module_, kernel, grid, block};
    launch.params.resize(info.param_bytes);
    size_t next = 0;
    (std::memcpy(&launch.params[info.params[next++].offset], &values, sizeof(values)), ...);
    int ends[2];
    if (pipe(ends) != 0) return false;
    device_->Submit(std::move(launch), [to = ends[1]](const Fault* fault) {
      const char result = fault == nullptr;
      static_cast<void>(!write(to, &result, 1));
    });
    char result = 0;
    const bool is_told = read(ends[0], &result, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return is_told && result != 0;
  }

  /// `churn` on 4 blocks of 64; true when every number is right.
  bool Churn(uint32_t rounds) {
    constexpr uint32_t kThreads = 256;
    const uint64_t out = device_->Allocate(kThreads * 4);
    if (!Run(0, {4}, {64}, out, rounds)) return false;
    bool is_right = true;
    for (uint32_t i = 0; i < kThreads; ++i) {
      uint32_t expected = i;
      for (uint32_t round = 0; round < rounds; ++round) expected = expected * 1664525 + 1013904223;
      is_right &= reinterpret_cast<const uint32_t*>(out)[i] == expected;
    }
    device_->Free(out);
    return is_right;
  }

 private:
  Token token_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<LoadedModule> module_;
};

class SharingTest : public TokenTest {};

TEST_F(SharingTest, ALoneProcessTakesTheDeviceOnce) {
  Child only([&](const Say&) {
    SharedDevice device(path_, 100'000);
    for (int i = 0; i < 50; ++i) {
      if (!device.Churn(1000)) return 1;
    }
    const TokenCounters counters = device.counters();
    return counters.slices == 1 && counters.handovers == 0 ? 0 : 2;
  });
  EXPECT_EQ(only.End(), 0);
  EXPECT_EQ(ReadTokenTotals(path_).value().slices, 1u);
}

TEST_F(SharingTest, TwoLongKernelsRunByTurns) {
  const auto body = [&](const Say& say) {
    SharedDevice device(path_, 1'000'000);
    if (!device.Churn(1)) return 1;  // until here everything is loaded
    say("ready");
    const bool is_right = device.Churn(300'000);
    const TokenCounters counters = device.counters();
    say(std::to_string(counters.slices) + " " + std::to_string(counters.handovers) + " " +
        std::to_string(counters.held_ns));
    return is_right ? 0 : 2;
  };
  Child first(body), second(body);
  ASSERT_EQ(first.Line(), "ready");
  ASSERT_EQ(second.Line(), "ready");
  uint64_t slices[2], handovers[2], held_ns[2];
  for (int i = 0; i < 2; ++i) {
    std::istringstream line((i == 0 ? first : second).Line());
    line >> slices[i] >> handovers[i] >> held_ns[i];
    EXPECT_GT(handovers[i], 10u);
    std::printf("slices %lu, handovers %lu, held %.1f ms\n", slices[i], handovers[i],
                static_cast<double>(held_ns[i]) / 1e6);
  }
  EXPECT_EQ(first.End(), 0);
  EXPECT_EQ(second.End(), 0);
}

TEST_F(SharingTest, ASpinningKernelDoesNotStopAnother) {
  auto* word = static_cast<uint32_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Child waits([&](const Say& say) {
    SharedDevice device(path_, 1'000'000);
    device.device().MapHost(reinterpret_cast<uint64_t>(word), 4096);
    if (!device.Churn(1)) return 1;
    say("ready");
    return device.Run(1, {1}, {32}, reinterpret_cast<uint64_t>(word)) ? 0 : 2;
  });
  ASSERT_EQ(waits.Line(), "ready");
  Child works([&](const Say&) {
    SharedDevice device(path_, 1'000'000);
    if (!device.Churn(100'000)) return 1;
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    return 0;
  });
  EXPECT_EQ(works.End(), 0);
  EXPECT_EQ(waits.End(), 0);
  munmap(word, 4096);
}

}  // namespace
}  // namespace cupola::sim
