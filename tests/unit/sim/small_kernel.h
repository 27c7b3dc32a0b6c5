// A fixture that runs kernels of a few lines on a device of the test's own, for tests of the simulated
// device. One thread.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/sim/exec/device.h"

namespace cupola::sim {

/// Submits launches and waits for all of them. Wait returns the first fault, if there was one.
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

/// PTX of one kernel "k", with its pointer parameter in %rd0 and the thread's number in %r0.
inline std::string Kernel(const std::string& body, const std::string& declarations = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + declarations +
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred "
         "%p<5>;\n"
         "ld.param.u64 %rd0, [p];\nmov.u32 %r0, %tid.x;\n" +
         body + "\nret;\n}\n";
}

class SmallKernelTest : public testing::Test {
 protected:
  explicit SmallKernelTest(DeviceConfig config = {}) : device_(Device::Create(config)) {
    word_ = device_->Allocate(256);
    std::memset(reinterpret_cast<void*>(word_), 0, 256);
  }

  GridLaunch Make(const std::string& text, uint64_t pointer, uint32_t threads = 32,
                  uint32_t blocks = 1) {
    auto module = device_->LoadPtx(text, "small.ptx");
    EXPECT_TRUE(module) << module.error().ToString();
    GridLaunch launch;
    launch.module = *module;
    launch.grid = {blocks, 1, 1};
    launch.block = {threads, 1, 1};
    launch.params = Pack((*module)->kernels()[0], pointer);
    return launch;
  }

  std::optional<Fault> Run(const std::string& body, uint32_t threads = 32) {
    Launcher launcher(device_.get());
    launcher.Submit(Make(Kernel(body), word_, threads));
    return launcher.Wait();
  }

  volatile uint32_t* Words() { return reinterpret_cast<volatile uint32_t*>(word_); }

  std::unique_ptr<Device> device_;
  uint64_t word_ = 0;
};

}  // namespace cupola::sim
