// The part that both devices share: memory, modules, and making a Grid of a launch. The device that
// programs use (free_run.h) and the stepped device (stepped/stepped_device.h) derive from it.
// `Interface` is Device or an interface derived from it; device.h says what each function does. Any
// thread.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/compiler/ptx/parse.h"
#include "device/sim/exec/link.h"
#include "device/sim/exec/printer.h"
#include "device/sim/exec/program.h"
#include "device/sim/exec/residency.h"

namespace cupola::sim {

template <typename Interface>
class DeviceBase : public Interface {
 public:
  explicit DeviceBase(const DeviceConfig& config)
      : config_(config), memory_(std::make_shared<AddressSpace>(config.memory_bytes)) {}
  ~DeviceBase() override { printer_.Flush(); }

  const DeviceConfig& config() const override { return config_; }

  Result<std::shared_ptr<LoadedModule>> LoadPtx(std::string_view text,
                                                std::string_view name) override {
    auto module = ptx::Parse(text, name);
    if (!module) return module.error();
    return Place(std::move(module.value()));
  }

  Result<std::shared_ptr<LoadedModule>> LoadLinkedPtx(std::span<const std::string_view> texts,
                                                      std::string_view name) override {
    std::vector<ptx::Module> units;
    for (const std::string_view text : texts) {
      auto module = ptx::Parse(text, name);
      if (!module) return module.error();
      units.push_back(std::move(module.value()));
    }
    auto whole = LinkModules(std::move(units));
    if (!whole) return whole.error();
    return Place(std::move(whole.value()));
  }

  uint64_t Allocate(uint64_t bytes) override { return memory_->Allocate(bytes); }
  bool Free(uint64_t address) override { return memory_->Free(address); }
  void MapHost(uint64_t address, uint64_t bytes) override { memory_->MapHost(address, bytes); }
  void UnmapHost(uint64_t address) override { memory_->UnmapHost(address); }
  Device::Range FindRange(uint64_t address) const override {
    const MemoryRange range = memory_->Find(address);
    return {range.start, range.bytes, range.is_host};
  }
  uint64_t FreeBytes() const override { return memory_->FreeBytes(); }

  uint32_t MaxResidentBlocks(const KernelInfo& kernel, uint32_t threads_per_block,
                             uint32_t dynamic_shared_bytes) const override {
    if (threads_per_block > kernel.max_threads_per_block) return 0;
    return sim::MaxResidentBlocks(config_, threads_per_block,
                                  kernel.static_shared_bytes + dynamic_shared_bytes);
  }

  void FlushPrintf() override { printer_.Flush(); }

 protected:
  /// The launch as the interpreter runs it, with the next number. A cooperative one gets 64 bytes of device memory,
  /// which the deriving class frees when the grid has ended.
  Grid MakeGrid(GridLaunch launch) {
    Grid grid;
    grid.program = std::static_pointer_cast<const Program>(launch.module);
    grid.function = grid.program->kernel_functions[launch.kernel_index];
    grid.grid = launch.grid;
    grid.block = launch.block;
    grid.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    grid.id = next_grid_.fetch_add(1, std::memory_order_relaxed);
    grid.params = std::move(launch.params);
    if (launch.cooperative) {
      grid.workspace = memory_->Allocate(64);
      if (grid.workspace != 0) std::memset(reinterpret_cast<void*>(grid.workspace), 0, 64);
    }
    return grid;
  }

  const DeviceConfig config_;
  std::shared_ptr<AddressSpace> memory_;
  PrintBuffer printer_;

 private:
  Result<std::shared_ptr<LoadedModule>> Place(ptx::Module module) {
    if (!memory_->ok()) {
      return MakeError(ErrorCode::kExhausted, "no address space for the simulated device");
    }
    auto program = Decode(std::move(module), memory_);
    if (!program) return program.error();
    return std::shared_ptr<LoadedModule>(std::move(program.value()));
  }

  std::atomic<uint64_t> next_grid_{1};
};

}  // namespace cupola::sim
