#include "tests/unit/sim/stepped/scenario.h"

#include <cstring>

namespace cupola::sim {

std::string Buffers::Text(size_t buffer, size_t count) const {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + std::to_string(Word(buffer, i));
  return text;
}

KernelUnderTest Blocks(const std::vector<std::string>& threads) {
  KernelUnderTest kernel;
  kernel.buffers = 2;
  kernel.grid.x = static_cast<uint32_t>(threads.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    const std::string n = std::to_string(i);
    kernel.body += "setp.ne.u32 %p0, %r39, " + n + ";\n@%p0 bra NEXT" + n + ";\n" + threads[i] +
                   "\nbra DONE;\nNEXT" + n + ":\n";
  }
  kernel.body += "DONE:";
  return kernel;
}

std::string PtxOf(const KernelUnderTest& kernel) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(";
  for (uint32_t i = 0; i < kernel.buffers; ++i)
    text += (i == 0 ? "" : ", ") + std::string(".param .u64 p") + std::to_string(i);
  text += ")\n{\n" + kernel.shared +
          "\n.reg .b64 %a<10>;\n.reg .b64 %rd<20>;\n.reg .b32 %r<40>;\n.reg .pred %p<10>;\n"
          "mov.u32 %r38, %tid.x;\nmov.u32 %r39, %ctaid.x;\n";
  for (uint32_t i = 0; i < kernel.buffers; ++i)
    text += "ld.param.u64 %a" + std::to_string(i) + ", [p" + std::to_string(i) + "];\n";
  return text + kernel.body + "\nret;\n}\n";
}

GridLaunch Prepare(SteppedDevice& device, const KernelUnderTest& kernel, Buffers* buffers) {
  auto module = device.LoadPtx(PtxOf(kernel), "k.ptx");
  if (!module) {
    ADD_FAILURE() << module.error().ToString();
    return {};
  }
  GridLaunch launch;
  launch.module = *module;
  launch.grid = kernel.grid;
  launch.block = kernel.block;
  launch.cooperative = kernel.cooperative;
  const KernelInfo& info = launch.module->kernels()[0];
  launch.params.resize(info.param_bytes);
  buffers->addresses.clear();
  for (uint32_t i = 0; i < kernel.buffers; ++i) {
    const uint64_t address = device.Allocate(KernelUnderTest::kWords * 4);
    std::memset(reinterpret_cast<void*>(address), 0, KernelUnderTest::kWords * 4);
    std::memcpy(launch.params.data() + info.params[i].offset, &address, 8);
    buffers->addresses.push_back(address);
  }
  return launch;
}

Scenario ScenarioOf(const KernelUnderTest& kernel, std::shared_ptr<Buffers> buffers,
                    std::function<std::string(const Buffers&)> check) {
  Scenario scenario;
  scenario.config.device.memory_bytes = 16 << 20;
  scenario.start = [kernel, buffers](SteppedDevice& device) {
    GridLaunch launch = Prepare(device, kernel, buffers.get());
    if (launch.module) device.Submit(std::move(launch), [](const Fault*) {});
  };
  if (check) scenario.check = [buffers, check](SteppedDevice&) { return check(*buffers); };
  return scenario;
}

}  // namespace cupola::sim
