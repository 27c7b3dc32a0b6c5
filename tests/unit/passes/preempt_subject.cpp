#include "tests/unit/passes/preempt_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/prng.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/runtime/preempt_control.h"
#include "device/sim/stepped/search.h"
#include "tests/paths.h"

namespace cupola::passes {
namespace {

constexpr uint32_t kMaxBlocks = 4096;

// Thread 0 of each block adds one to the block's own word, at the block's begin.
constexpr std::string_view kCount = R"(
  .reg .b32 %test_r<9>;
  .reg .b64 %test_d<3>;
  .reg .pred %test_p;
  mov.u32 %test_r0, %tid.x;
  mov.u32 %test_r1, %tid.y;
  mov.u32 %test_r2, %tid.z;
  or.b32 %test_r0, %test_r0, %test_r1;
  or.b32 %test_r0, %test_r0, %test_r2;
  setp.ne.u32 %test_p, %test_r0, 0;
  mov.u32 %test_r3, %ctaid.z;
  mov.u32 %test_r4, %nctaid.y;
  mov.u32 %test_r5, %ctaid.y;
  mad.lo.u32 %test_r3, %test_r3, %test_r4, %test_r5;
  mov.u32 %test_r4, %nctaid.x;
  mov.u32 %test_r5, %ctaid.x;
  mad.lo.u32 %test_r3, %test_r3, %test_r4, %test_r5;
  mul.wide.u32 %test_d0, %test_r3, 4;
  mov.u64 %test_d1, test_counts;
  add.s64 %test_d0, %test_d0, %test_d1;
  @%test_p bra $test_counted;
  red.global.add.u32 [%test_d0], 1;
$test_counted:
)";

void AddCounting(ptx::Module& module, ptx::Function& kernel) {
  std::vector<ptx::Statement> code = Snippet(kCount);
  auto& statements = kernel.body->statements;
  statements.insert(statements.begin(), code.begin(), code.end());
  ptx::Variable counts;
  counts.linking = "visible";
  counts.space = ptx::StateSpace::kGlobal;
  counts.align = 4;
  counts.type = "b32";
  counts.name = "test_counts";
  counts.dims = {kMaxBlocks};
  module.items.insert(module.items.begin(), std::move(counts));
}

Status RunOriginal(Subject& subject, uint32_t launches) {
  sim::SteppedConfig config;
  config.device.memory_bytes = 64 << 20;
  config.memory.find_races = false;
  sim::RandomChooser chooser(1);
  auto device = sim::SteppedDevice::Create(config, &chooser);
  auto module = device->LoadPtx(subject.original, subject.golden.name);
  if (!module) return module.error();
  const sim::KernelSpec& spec = subject.golden.spec;
  const uint32_t index = KernelIndex(**module, subject.kernel);
  const Arguments arguments = PlaceArguments(*device, spec, (*module)->kernels()[index]);
  for (uint32_t launch = 0; launch < launches; ++launch) {
    device->Submit({*module, index, spec.grid, spec.block, spec.dynamic_shared_bytes,
                    arguments.params, spec.cooperative},
                   [](const sim::Fault*) {});
    if (device->Run() != sim::RunEnd::kIdle || device->fault()) {
      return MakeError(ErrorCode::kInternal,
                       device->fault() ? device->fault()->message : device->stuck());
    }
    subject.expected.push_back(ReadBuffers(spec, arguments));
  }
  return {};
}

}  // namespace

std::vector<std::filesystem::path> PassKernelFiles() {
  return sim::PtxFilesIn(std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/passes/kernels");
}

size_t Replace(std::string& text, const std::string& before, const std::string& after) {
  size_t count = 0;
  for (size_t at = text.find(before); at != text.npos; at = text.find(before, at + after.size())) {
    text.replace(at, before.size(), after);
    ++count;
  }
  return count;
}

uint64_t AddressOf(const sim::LoadedModule& module, std::string_view name) {
  for (const sim::GlobalInfo& global : module.globals()) {
    if (global.name == name) return global.address;
  }
  return 0;
}

uint32_t KernelIndex(const sim::LoadedModule& module, std::string_view name) {
  for (uint32_t i = 0; i < module.kernels().size(); ++i) {
    if (module.kernels()[i].name == name) return i;
  }
  return ~0u;
}

Arguments PlaceArguments(sim::Device& device, const sim::KernelSpec& spec,
                         const sim::KernelInfo& info) {
  Arguments arguments;
  arguments.params.resize(info.param_bytes);
  for (size_t i = 0; i < spec.args.size(); ++i) {
    const sim::ArgSpec& arg = spec.args[i];
    std::byte* at = arguments.params.data() + info.params[i].offset;
    arguments.buffers.push_back(0);
    if (!arg.is_buffer) {
      std::memcpy(at, arg.bytes.data(), std::min<size_t>(arg.bytes.size(), info.params[i].size));
      continue;
    }
    const uint64_t address = device.Allocate(arg.bytes.size());
    std::memcpy(reinterpret_cast<void*>(address), arg.bytes.data(), arg.bytes.size());
    std::memcpy(at, &address, 8);
    arguments.buffers.back() = address;
  }
  return arguments;
}

std::vector<std::vector<std::byte>> ReadBuffers(const sim::KernelSpec& spec,
                                                const Arguments& arguments) {
  std::vector<std::vector<std::byte>> all;
  for (size_t i = 0; i < spec.args.size(); ++i) {
    if (!spec.args[i].is_buffer) continue;
    const auto* at = reinterpret_cast<const std::byte*>(arguments.buffers[i]);
    all.emplace_back(at, at + spec.args[i].bytes.size());
  }
  return all;
}

void FillVariables(const std::vector<VariableFact>& variables, const sim::LoadedModule& original,
                   const sim::LoadedModule& side) {
  const uint64_t array = AddressOf(side, kVariablesName);
  for (size_t i = 0; i < variables.size(); ++i) {
    const uint64_t address = AddressOf(original, variables[i].name);
    std::memcpy(reinterpret_cast<void*>(array + 8 * i), &address, 8);
  }
}

std::string WrongCounts(const sim::LoadedModule& original, uint32_t total, uint32_t launches) {
  const uint64_t counts = AddressOf(original, "test_counts");
  for (uint32_t i = 0; i < total; ++i) {
    const uint32_t count = reinterpret_cast<const uint32_t*>(counts)[i];
    if (count != launches) return fmt::format("block {} ran {} times", i, count);
  }
  return "";
}

Result<Subject> MakeSubject(const std::filesystem::path& path, uint32_t launches) {
  auto golden = sim::ReadGoldenKernel(path);
  if (!golden) return golden.error();
  return MakeSubject(std::move(*golden), launches);
}

Result<Subject> MakeSubject(sim::GoldenKernel golden, uint32_t launches) {
  Subject subject;
  subject.golden = std::move(golden);
  auto module = ptx::Parse(subject.golden.input, subject.golden.name);
  if (!module) return module.error();
  for (auto& item : module->items) {
    auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry) continue;
    if (subject.golden.spec.kernel.empty()) subject.golden.spec.kernel = function->name;
  }
  subject.kernel = subject.golden.spec.kernel;
  AddCounting(*module, *module->FindFunction(subject.kernel));
  subject.original = ptx::Write(*module);
  auto side = MakeSideModule(*module, {.kernels = {subject.kernel}});
  if (!side) return side.error();
  subject.side = ptx::Write(side->module);
  subject.facts = side->kernels[0];
  subject.variables = side->variables;
  if (!subject.facts.sliced_refusal.empty()) return subject;
  if (Status run = RunOriginal(subject, launches); !run) return run.error();
  return subject;
}

std::string RunSlices(const Subject& subject, uint64_t seed, std::span<const uint32_t> slices,
                      const sim::MemoryModelConfig& memory) {
  sim::SteppedConfig config;
  config.memory = memory;
  config.device.memory_bytes = 64 << 20;
  config.choose_blocks = true;
  sim::RandomChooser chooser(seed);
  auto device = sim::SteppedDevice::Create(config, &chooser);
  auto original = device->LoadPtx(subject.original, "original.ptx");
  auto side = device->LoadPtx(subject.side, "side.ptx");
  if (!original || !side) return original ? side.error().ToString() : original.error().ToString();
  const uint32_t index = KernelIndex(**side, VariantName(subject.kernel, Variant::kSliced));
  if (index == ~0u) return "no sliced variant";
  FillVariables(subject.variables, **original, **side);
  const sim::KernelSpec& spec = subject.golden.spec;
  const Arguments arguments = PlaceArguments(*device, spec, (*side)->kernels()[index]);
  uint32_t first = 0;
  for (const uint32_t count : slices) {
    const runtime::SliceParams params{{spec.grid.x, spec.grid.y, spec.grid.z}, first};
    std::vector<std::byte> bytes = arguments.params;
    std::memcpy(bytes.data() + subject.facts.launch_offset, &params, sizeof(params));
    device->Submit({*side,
                    index,
                    {count, 1, 1},
                    spec.block,
                    spec.dynamic_shared_bytes,
                    std::move(bytes),
                    false},
                   [](const sim::Fault*) {});
    if (device->Run() != sim::RunEnd::kIdle) return "nothing can go on: " + device->stuck();
    if (device->fault()) return device->fault()->message;
    first += count;
  }
  if (ReadBuffers(spec, arguments) != subject.expected[0]) return "results differ";
  return WrongCounts(**original, first, 1);
}

std::string RunSliced(const Subject& subject, uint64_t seed, uint32_t most) {
  const sim::Dim3& grid = subject.golden.spec.grid;
  Prng random(seed);
  std::vector<uint32_t> slices;
  for (uint32_t left = grid.x * grid.y * grid.z; left != 0; left -= slices.back()) {
    slices.push_back(std::min(1 + static_cast<uint32_t>(random.Below(most)), left));
  }
  return RunSlices(subject, seed, slices);
}

}  // namespace cupola::passes
