// A simulated device with its token, for use in a child of a test: several children run kernels on the
// one simulated GPU. One thread.
#pragma once

#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "device/sim/exec/device.h"
#include "device/sim/token/token.h"

namespace cupola::sim {

// churn: each thread computes x = x * 1664525 + 1013904223, `rounds` times from its index on, and
// stores it to out[index]. await: waits until *word is not 0. count: counts in *counter until *stop is
// not 0.
inline constexpr char kKernels[] = R"(
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
.visible .entry count(.param .u64 stop, .param .u64 counter)
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [stop];
  ld.param.u64 %rd2, [counter];
  mov.u32 %r2, 0;
LOOP:
  add.u32 %r2, %r2, 1;
  st.volatile.global.u32 [%rd2], %r2;
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p, %r1, 0;
  @%p bra LOOP;
  ret;
}
)";

enum Kernel : uint32_t { kChurn, kAwait, kCount };

class SharedDevice {
 public:
  /// A device without a token.
  explicit SharedDevice(std::unique_ptr<Device> device)
      : token_({"", 0}),
        device_(std::move(device)),
        module_(device_->LoadPtx(kKernels, "kernels").value()) {}
  SharedDevice(const std::string& path, uint64_t slice_ns, uint32_t sms = 2)
      : token_({path, slice_ns}),
        device_(Device::Create({.sm_count = sms, .memory_bytes = 64 << 20, .gate = &token_.gate()})),
        module_(device_->LoadPtx(kKernels, "kernels").value()) {}

  Device& device() { return *device_; }
  TokenCounters counters() const { return token_.counters(); }

  /// Runs a kernel and waits for it. True: it ended without a fault.
  template <typename... Values>
  bool Run(Kernel kernel, Dim3 grid, Dim3 block, Values... values) {
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

  /// Runs `churn` without checking the results.
  void RunChurn(uint32_t rounds) {
    if (scratch_ == 0) scratch_ = device_->Allocate(kThreads * 4);
    static_cast<void>(Run(kChurn, {4}, {64}, scratch_, rounds));
  }
  /// Runs `churn` on 4 blocks of 64 threads. True: every number is right.
  bool Churn(uint32_t rounds) {
    const uint64_t out = device_->Allocate(kThreads * 4);
    if (!Run(kChurn, {4}, {64}, out, rounds)) return false;
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
  static constexpr uint32_t kThreads = 256;
  uint64_t scratch_ = 0;
  Token token_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<LoadedModule> module_;
};

}  // namespace cupola::sim
