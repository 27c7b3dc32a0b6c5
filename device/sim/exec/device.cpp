// The Device of device.h in free mode.
#include "device/sim/exec/device.h"

#include <time.h>

#include "device/sim/exec/device_base.h"
#include "device/sim/exec/free_run.h"

namespace cupola::sim {
namespace {

uint64_t HostNow(void*) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
}

class FreeDevice final : public DeviceBase<Device> {
 public:
  explicit FreeDevice(const DeviceConfig& config)
      : DeviceBase(config),
        runner_(config, Machine{memory_.get(), &printer_, HostNow, nullptr, config.sm_count}) {}

  void Submit(GridLaunch launch, std::function<void(const Fault* fault)> done) override {
    const bool cooperative = launch.cooperative;
    runner_.Submit(MakeGrid(std::move(launch)), cooperative, std::move(done));
  }

  uint64_t NowNs() const override { return HostNow(nullptr); }

 private:
  FreeRun runner_;
};

}  // namespace

std::unique_ptr<Device> Device::Create(const DeviceConfig& config) {
  return std::make_unique<FreeDevice>(config);
}

}  // namespace cupola::sim
