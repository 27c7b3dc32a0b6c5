// The simulated device through its public interface: memory, launches, faults, concurrency.
#include "device/sim/exec/device.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

namespace cupola::sim {
namespace {

constexpr char kVectorAdd[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}
)";

/// Submits and waits; the fault if there was one.
class Launcher {
 public:
  explicit Launcher(Device* device) : device_(device) {}
  void Submit(GridLaunch launch) {
    device_->Submit(std::move(launch), [this](const Fault* fault) {
      std::lock_guard lock(mutex_);
      if (fault != nullptr && !fault_) fault_ = *fault;
      ++done_;
      changed_.notify_all();
    });
    ++submitted_;
  }
  std::optional<Fault> Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == submitted_; });
    return fault_;
  }

 private:
  Device* device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int submitted_ = 0, done_ = 0;
  std::optional<Fault> fault_;
};

template <typename... Values>
std::vector<std::byte> Pack(const KernelInfo& kernel, Values... values) {
  std::vector<std::byte> params(kernel.param_bytes);
  size_t i = 0;
  (std::memcpy(params.data() + kernel.params[i++].offset, &values, sizeof(values)), ...);
  return params;
}

TEST(DeviceTest, AddsVectors) {
  auto device = Device::Create({});
  auto module = device->LoadPtx(kVectorAdd, "add.ptx");
  ASSERT_TRUE(module) << module.error().ToString();
  constexpr uint32_t kCount = 1000;
  const uint64_t a = device->Allocate(kCount * 4), b = device->Allocate(kCount * 4),
                 c = device->Allocate(kCount * 4);
  for (uint32_t i = 0; i < kCount; ++i) {
    reinterpret_cast<float*>(a)[i] = static_cast<float>(i);
    reinterpret_cast<float*>(b)[i] = 0.5f;
    reinterpret_cast<float*>(c)[i] = -1;
  }
  Launcher launcher(device.get());
  GridLaunch launch;
  launch.module = *module;
  launch.grid = {4, 1, 1};
  launch.block = {256, 1, 1};
  launch.params = Pack((*module)->kernels()[0], a, b, c, kCount);
  launcher.Submit(launch);
  const auto fault = launcher.Wait();
  ASSERT_FALSE(fault) << fault->message;
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(reinterpret_cast<float*>(c)[i], static_cast<float>(i) + 0.5f) << i;
  }
}

TEST(DeviceTest, NamesAnIllegalAddress) {
  auto device = Device::Create({});
  auto module = device->LoadPtx(kVectorAdd, "add.ptx");
  ASSERT_TRUE(module) << module.error().ToString();
  const uint64_t a = device->Allocate(64 * 4);
  Launcher launcher(device.get());
  GridLaunch launch;
  launch.module = *module;
  launch.block = {32, 1, 1};
  launch.params = Pack((*module)->kernels()[0], a, a, uint64_t{0x10}, 32u);
  launcher.Submit(launch);
  const auto fault = launcher.Wait();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kIllegalAddress);
  EXPECT_NE(fault->message.find("illegal address 0x10"), std::string::npos) << fault->message;
  EXPECT_NE(fault->message.find("kernel add, block (0,0,0), thread (0,0,0): st.global.f32 at line 28"),
            std::string::npos)
      << fault->message;
}

}  // namespace
}  // namespace cupola::sim
