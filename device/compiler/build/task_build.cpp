#include "device/compiler/build/task_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "device/compiler/build/fusion.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/runtime/master_image.h"

namespace cupola::build {
namespace {

// Registers of a thread of the MasterKernel. With these, 62, 31 or 15 warps of an SM run tasks
// (runtime::MtbThreads).
constexpr uint32_t kFewRegisters = 32, kManyRegisters = 64, kMostRegisters = 128;

uint32_t RegistersOf(const Code& original, const std::string& name) {
  const fatbin::CubinKernel* kernel = original.Kernel(name);
  return kernel == nullptr ? 0 : kernel->registers;
}

// The most registers that a kernel may need. Only where all kernels need many do half as many
// threads run tasks at a time.
uint32_t MostRegisters(const std::vector<std::string>& wanted, const Code& original) {
  const bool all_need_many =
      std::all_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
        return RegistersOf(original, name) > kManyRegisters;
      });
  return all_need_many ? kMostRegisters : kManyRegisters;
}

// Counts operations that a compiler may make of others: it may fuse additions and multiplications,
// or not. How it converts a number whose range it knows makes no difference to the result.
void AddFusable(FloatCounts& sum, const FloatCounts& more) {
  for (const auto& [name, count] : more) {
    const std::string_view operation = std::string_view(name).substr(1, 3);
    if (operation == "ADD" || operation == "MUL" || operation == "FMA") sum[name] += count;
  }
}

// Whether all bodies together have the same operations as all kernels together. If so, each body is
// assumed to have its own kernel's operations.
bool HasSameFloats(const TaskBuild& tasks, const Code& original, const Code& code) {
  FloatCounts before, after;
  for (const auto& [name, function] : original.functions) {
    const bool is_called = !original.kernels.contains(name);
    if (is_called || tasks.kernels.contains(name)) AddFusable(before, function.floats);
  }
  for (const auto& [name, function] : code.functions) AddFusable(after, function.floats);
  return FloatDifference(before, after).empty();
}

// Avoids bank conflicts in bodies. Bodies are functions that get the registers which the
// MasterKernel leaves, and ptxas does not care in which banks these lie: where all operands of a
// loop's multiply-adds lie in one bank, a body takes a fifth longer. So the function changes which
// registers are left, until bodies have no more conflicts than the kernels, whose conflicts lie in
// the computation itself. To hold three values at a time changes most, and a quarter of such
// choices has no conflict in narrow_bench [measured: docs/results/narrow-tasks.md].
void AvoidConflicts(const ptx::Module& module, const ptx::Module& master, const Code& original,
                    passes::TaskModuleOptions options, const CompilePtx& compile, TaskBuild* made,
                    Code* code) {
  constexpr int kHeldAtATime = 3;
  uint32_t tries = 5;
  for (options.held = 1; options.held < 1u << passes::kHoldable; ++options.held) {
    if (std::popcount(options.held) != kHeldAtATime) continue;
    if (code->BankConflicts() <= original.BankConflicts() || tries-- == 0) return;
    const Result<passes::TaskModule> tasks = passes::MakeTaskModule(module, master, options);
    if (!tasks) return;
    std::string ptx = ptx::Write(tasks->module);
    Result<Code> other = compile(ptx);
    if (!other || other->BankConflicts() >= code->BankConflicts()) continue;
    made->ptx = std::move(ptx);
    *code = *std::move(other);
  }
}

}  // namespace

Result<TaskBuild> BuildTasks(const ptx::Module& module, const std::vector<std::string>& wanted,
                             const Code& original, uint32_t arch, const CompilePtx& compile) {
  static const Result<ptx::Module> master = ptx::Parse(runtime::MasterImage(), "master_image");
  if (!master) return master.error();
  TaskBuild made;
  passes::TaskModuleOptions options{.arch = arch, .registers = kFewRegisters};
  const uint32_t most = MostRegisters(wanted, original);
  for (const std::string& name : wanted) {
    const uint32_t registers = RegistersOf(original, name);
    if (registers > most) {
      made.refusals[name] = fmt::format(
          "{} registers a thread: more than {}{}", registers, most,
          most == kManyRegisters ? ", which is enough for others of its module" : "");
      continue;
    }
    if (registers > kFewRegisters) options.registers = most;
    options.kernels.push_back(name);
  }
  if (options.kernels.empty()) return made;
  Result<passes::TaskModule> tasks = passes::MakeTaskModule(module, *master, options);
  if (!tasks) return tasks.error();
  for (passes::TaskFacts& facts : tasks->kernels) {
    if (facts.refusal.empty()) {
      made.kernels.emplace(facts.name, facts);
    } else {
      made.refusals.emplace(facts.name, facts.refusal);
    }
  }
  if (made.kernels.empty()) return made;
  made.ptx = ptx::Write(tasks->module);
  Result<Code> code = compile(made.ptx);
  if (!code) {
    for (const auto& [name, facts] : made.kernels) made.refusals[name] = code.error().message;
    made.kernels.clear();
    return made;
  }
  AvoidConflicts(module, *master, original, options, compile, &made, &*code);
  if (!HasSameFloats(made, original, *code)) {
    for (const auto& [name, facts] : made.kernels) {
      if (MayBeFused(module, name)) made.inexact.insert(name);
    }
  }
  made.variables = std::move(tasks->variables);
  made.registers = options.registers;
  made.cubin = std::move(code->bytes);
  return made;
}

}  // namespace cupola::build
