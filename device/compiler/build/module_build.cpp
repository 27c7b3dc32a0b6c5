#include "device/compiler/build/module_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "device/compiler/build/code.h"
#include "device/compiler/build/fusion.h"
#include "device/compiler/build/occupancy.h"
#include "device/compiler/build/parameter_check.h"
#include "device/compiler/build/task_build.h"
#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/compiler/store/bundle_writer.h"
#include "device/runtime/preempt_control.h"

namespace cupola::build {
namespace {

using passes::Variant;

constexpr uint32_t kSpillAtMost = 32;  // spills, in bytes per thread, that a bound of the registers may cost

// Local memory per thread, in bytes. A cubin may give only the kernel's own frame, or also the stack with its callees.
uint32_t LocalBytes(const fatbin::CubinKernel& kernel) {
  return std::max(kernel.frame_bytes, kernel.stack_bytes);
}

// How a variant's floating-point operations compare with the original's.
struct Comparison {
  bool exact = false;      // the variant's results have the same bits as the original's
  std::string difference;  // how the counts of operations differ; "": they do not. It may be set where `exact` is
                           // true: then the counts differ, but PTX leaves the compiler no choice of rounding
};

// Builds one bundle. BuildModule makes a Builder for each call, in the calling thread. Build() has the order of steps.
class Builder {
 public:
  Builder(const ModuleInput& input, const ModuleOptions& options, const Compiler& compiler)
      : input_(input), options_(options), compiler_(compiler) {}

  Result<BuiltModule> Build();

 private:
  void ReadOriginal();
  void PinRoundings();
  bool IsPinned(const std::string& function, const Code& pinned) const;
  bool HasOriginalOf(const std::vector<std::string>& kernels) const;
  Result<Code> Compile(const std::string& ptx, uint32_t limit_factor = 1,
                       const char* option = nullptr);
  Status MakeVariants(uint32_t limit_factor);
  template <typename Work>
  auto FirstTry(Work&& work);
  void FindRefused(const std::vector<std::string>& kernels);
  std::map<std::string, uint32_t> RegisterBounds() const;
  void BoundRegisters();
  bool SpillsMuch(const std::string& kernel, const Code& bounded) const;
  const fatbin::CubinKernel* VariantOf(const std::string& kernel, Variant variant) const;
  Comparison Compare(const std::string& kernel, Variant variant) const;
  void MakeTasks();
  store::BundleKernel Describe(const passes::KernelFacts& facts) const;
  void DescribeOriginal(const passes::KernelFacts& facts, store::BundleKernel& kernel) const;
  void DescribeVariants(const passes::KernelFacts& facts, store::BundleKernel& kernel) const;
  void DescribeTask(store::BundleKernel& kernel) const;
  Result<std::vector<std::byte>> Bundle();

  ModuleInput input_;
  const ModuleOptions& options_;
  const Compiler& compiler_;
  ptx::Module module_;                // the program's PTX; PinRoundings changes it
  std::vector<std::string> wanted_;   // names of the kernels to build
  Code original_;                     // what the program runs: see ReadOriginal
  std::string original_complaint_;    // why original_ lacks wanted kernels, so that none is built; "": it lacks none
  std::map<std::string, std::string> refused_;  // why the compiler refused a kernel, by name
  std::map<std::string, uint32_t> bounds_;  // registers per thread that a preemptible variant may have, by kernel
  passes::SideModule side_;                 // the module of the variants, as the passes made it
  std::string side_ptx_;                    // its text; "": it has no variant
  TaskBuild tasks_;
  Code code_;              // the machine code of side_ptx_; valid where has_code_ is true
  bool has_code_ = false;
  bool complete_ = true;   // false: another build may do better (store::kIncomplete)
  uint32_t compilations_ = 0;
};

// Compiles PTX within options_.limit times `limit_factor`. `option` is one more argument of ptxas, or null. The error
// kUnsupported means that the compiler refused the PTX, as it would again. After any other error of the compiler (it
// ran out of time, or could not run) the bundle counts as incomplete, unless what it was for is made another way
// (FirstTry).
Result<Code> Builder::Compile(const std::string& ptx, uint32_t limit_factor, const char* option) {
  CompileInput input{.ptx = ptx,
                     .arch = input_.arch,
                     .arch_suffix = input_.arch_suffix,
                     .options = KnownOptions(input_.options),
                     .limit = options_.limit * limit_factor};
  if (option != nullptr) input.options.emplace_back(option);
  ++compilations_;
  Result<std::vector<uint8_t>> cubin = compiler_.Compile(input);
  if (!cubin) {
    if (cubin.error().code != ErrorCode::kUnsupported) complete_ = false;
    return cubin.error();
  }
  return ReadCode(*std::move(cubin));
}

bool Builder::HasOriginalOf(const std::vector<std::string>& kernels) const {
  for (const std::string& kernel : kernels) {
    if (original_.Kernel(kernel) == nullptr) return false;
  }
  return true;
}

// Reads the code that the program would run: the code that it ships, else the code that its PTX gives here.
void Builder::ReadOriginal() {
  if (!input_.shipped_cubin.empty()) {
    const fatbin::Bytes shipped = input_.shipped_cubin;
    Result<Code> code = ReadCode({shipped.begin(), shipped.end()});
    if (code) original_ = *std::move(code);
    if (HasOriginalOf(wanted_)) return;
  }
  Result<Code> code = Compile(std::string(input_.ptx));
  if (code) {
    original_ = *std::move(code);
  } else {
    original_complaint_ = code.error().message;
  }
}

// Whether the function's code is the same where nothing may be fused. A function without code of its own is part of
// other functions' code, so all of these must be the same.
bool Builder::IsPinned(const std::string& function, const Code& pinned) const {
  const auto same = [&](const SassFunction& before) {
    const auto after = pinned.functions.find(before.name);
    return after != pinned.functions.end() &&
           FloatDifference(before.floats, after->second.floats).empty();
  };
  if (const auto own = original_.functions.find(function); own != original_.functions.end()) {
    return same(own->second);
  }
  return std::all_of(original_.functions.begin(), original_.functions.end(),
                     [&](const auto& each) { return same(each.second); });
}

// If the compiler may fuse additions and multiplications, and has not done so in the code that the program runs, it
// must not fuse them in variants and bodies either, though the code around them, which decides it, is different there.
// If it has fused them, the PTX stays as it is.
void Builder::PinRoundings() {
  const auto may_be_fused = [&](const std::string& kernel) { return MayBeFused(module_, kernel); };
  if (std::none_of(wanted_.begin(), wanted_.end(), may_be_fused)) return;
  ptx::Module pinned = module_;
  for (auto& item : pinned.items) {
    if (auto* function = std::get_if<ptx::Function>(&item)) PinRounding(*function);
  }
  const Result<Code> code = Compile(ptx::Write(pinned));
  if (!code) return;
  for (auto& item : module_.items) {
    auto* function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && IsPinned(function->name, *code)) PinRounding(*function);
  }
}

// Makes the variants of all wanted kernels that no compiler has refused yet.
Status Builder::MakeVariants(uint32_t limit_factor) {
  passes::SideModuleOptions options{.arch = input_.arch};
  for (const std::string& kernel : wanted_) {
    if (!refused_.contains(kernel)) options.kernels.push_back(kernel);
  }
  options.max_registers = bounds_;
  has_code_ = false;
  if (options.kernels.empty()) {
    side_ = {};
    side_ptx_.clear();
    return {};
  }
  Result<passes::SideModule> side = passes::MakeSideModule(module_, options);
  if (!side) return side.error();
  side_ = *std::move(side);
  side_ptx_ = side_.HasVariants() ? ptx::Write(side_.module) : "";
  if (side_ptx_.empty()) return {};
  Result<Code> code = Compile(side_ptx_, limit_factor);
  if (!code) return code.error();
  code_ = *std::move(code);
  has_code_ = true;
  return {};
}

// Does work whose failure leaves nothing out of the bundle, because the caller then tries in other ways to make what the
// work was for.
template <typename Work>
auto Builder::FirstTry(Work&& work) {
  const bool was_complete = complete_;
  auto result = work();
  complete_ = was_complete;
  return result;
}

// Finds the kernels whose variants the passes or the compiler refuse, by halving the list, and puts the reasons into
// refused_. No kernel of a list that compiles as a whole is refused.
void Builder::FindRefused(const std::vector<std::string>& kernels) {
  passes::SideModuleOptions options{.arch = input_.arch};
  options.kernels = kernels;
  Result<passes::SideModule> side = passes::MakeSideModule(module_, options);
  std::string complaint;
  if (!side) {
    complaint = side.error().message;
  } else if (!side->HasVariants()) {
    return;
  } else {
    const auto compile = [&] { return Compile(ptx::Write(side->module)); };
    const Result<Code> code = kernels.size() == 1 ? compile() : FirstTry(compile);
    if (code) return;
    complaint = code.error().message;
  }
  if (kernels.size() == 1) {
    refused_[kernels[0]] = complaint;
    return;
  }
  const auto middle = kernels.begin() + static_cast<long>(kernels.size() / 2);
  FindRefused({kernels.begin(), middle});
  FindRefused({middle, kernels.end()});
}

const fatbin::CubinKernel* Builder::VariantOf(const std::string& kernel, Variant variant) const {
  return has_code_ ? code_.Kernel(passes::VariantName(kernel, variant)) : nullptr;
}

BlockNeeds NeedsOf(const fatbin::CubinKernel& kernel, uint32_t threads) {
  return {.threads = threads == 0 ? kAssumedThreads : threads,
          .registers = kernel.registers,
          .shared_bytes = kernel.shared_bytes};
}

// The registers to which preemptible variants must be bound (RegisterBound), by kernel.
std::map<std::string, uint32_t> Builder::RegisterBounds() const {
  std::map<std::string, uint32_t> bounds;
  for (const passes::KernelFacts& facts : side_.kernels) {
    const fatbin::CubinKernel* before = original_.Kernel(facts.name);
    const fatbin::CubinKernel* after = VariantOf(facts.name, Variant::kPreemptible);
    if (before == nullptr || after == nullptr) continue;
    const auto bound = RegisterBound(NeedsOf(*before, facts.max_threads),
                                     NeedsOf(*after, facts.max_threads), input_.arch);
    if (bound) bounds[facts.name] = *bound;
  }
  return bounds;
}

// Whether the bound of its registers made a variant spill more than a few words. The few words that a worker holds over
// the body may be spilled: they are stored and loaded once a block, when the worker has nothing else to do.
bool Builder::SpillsMuch(const std::string& kernel, const Code& bounded) const {
  const fatbin::CubinKernel* free = VariantOf(kernel, Variant::kPreemptible);
  const fatbin::CubinKernel* bound =
      bounded.Kernel(passes::VariantName(kernel, Variant::kPreemptible));
  return free == nullptr || bound == nullptr ||
         LocalBytes(*bound) > LocalBytes(*free) + kSpillAtMost;
}

// Compiles once more with bounds where occupancy fell, and keeps the bounds of variants that spill little.
void Builder::BoundRegisters() {
  const std::map<std::string, uint32_t> wished = RegisterBounds();
  if (wished.empty()) return;
  const passes::SideModule free_side = side_;
  const std::string free_ptx = side_ptx_;
  const Code free = code_;
  const auto undo = [&] {
    bounds_.clear();
    side_ = free_side;
    side_ptx_ = free_ptx;
    code_ = free;
    has_code_ = true;
  };
  bounds_ = wished;
  if (!MakeVariants(1)) {
    undo();
    return;
  }
  const Code bounded = code_;
  code_ = free;
  for (const auto& [kernel, bound] : wished) {
    if (SpillsMuch(kernel, bounded)) bounds_.erase(kernel);
  }
  if (bounds_.empty()) {
    undo();
  } else if (bounds_.size() == wished.size()) {
    code_ = bounded;
  } else if (!MakeVariants(1)) {
    undo();
  }
}

Comparison Builder::Compare(const std::string& kernel, Variant variant) const {
  const auto before = original_.functions.find(kernel);
  const auto after = code_.functions.find(passes::VariantName(kernel, variant));
  if (before == original_.functions.end() || after == code_.functions.end()) {
    return {false, "no code of the original to compare with"};
  }
  std::string difference = FloatDifference(before->second.floats, after->second.floats);
  if (difference.empty()) difference = CalleeDifference(original_, code_);
  return {difference.empty() || !MayBeFused(module_, kernel), difference};
}

// Builds the MasterKernel with the kernels as its bodies. The option makes the compiler less strict about registers
// than it is by default. So a body's operands lie in different register banks more often [measured:
// docs/results/narrow-tasks.md].
void Builder::MakeTasks() {
  Result<TaskBuild> made = BuildTasks(
      module_, wanted_, original_, input_.arch, [this](const std::string& ptx) {
        return Compile(ptx, 1, "--register-usage-level=7");
      });
  if (made) {
    tasks_ = *std::move(made);
  } else {
    for (const std::string& kernel : wanted_) tasks_.refusals[kernel] = made.error().message;
  }
}

void Builder::DescribeTask(store::BundleKernel& kernel) const {
  if (const auto refused = tasks_.refusals.find(kernel.name); refused != tasks_.refusals.end()) {
    kernel.task_refusal = refused->second;
    return;
  }
  const auto found = tasks_.kernels.find(kernel.name);
  if (found == tasks_.kernels.end()) return;
  const passes::TaskFacts& facts = found->second;
  kernel.task_refusal = CompareOriginal(original_.Kernel(kernel.name), facts.parameters);
  if (!kernel.task_refusal.empty()) return;
  kernel.entry.flags |= store::kTask;
  if (facts.uses_barrier) kernel.entry.flags |= store::kTaskBarrier;
  if (tasks_.inexact.contains(kernel.name)) kernel.entry.flags |= store::kTaskNotBitExact;
  kernel.entry.task_body = facts.body;
  kernel.entry.task_shared = facts.static_shared;
}

// Adds a reason to the text of reasons that a bundle gives.
void Note(std::string& text, std::string_view what, const std::string& why) {
  if (!why.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, why);
}

// Describes the program's kernel as its machine code has it.
void Builder::DescribeOriginal(const passes::KernelFacts& facts,
                               store::BundleKernel& kernel) const {
  store::KernelEntry& entry = kernel.entry;
  entry.max_threads = facts.max_threads;
  const fatbin::CubinKernel* const original = original_.Kernel(facts.name);
  if (original == nullptr) return;
  // Code and PTX may differ where launch bounds depend on the architecture.
  if (const auto& most = original->max_threads) {
    const uint64_t threads = uint64_t{(*most)[0]} * (*most)[1] * (*most)[2];
    if (threads < entry.max_threads || entry.max_threads == 0) {
      entry.max_threads = static_cast<uint32_t>(std::min<uint64_t>(threads, 1024));
    }
  }
  entry.registers = original->registers;
  entry.static_shared = static_cast<uint32_t>(original->shared_bytes);
  entry.local_bytes = LocalBytes(*original);
  if (original->required_threads) {
    std::copy_n(original->required_threads->begin(), 3, entry.required_threads);
  }
  for (const fatbin::CubinParam& parameter : original->params) {
    const bool is_pointer = kernel.parameters.size() < facts.parameters.size() &&
                            facts.parameters[kernel.parameters.size()].is_pointer;
    kernel.parameters.push_back({parameter.offset, parameter.size, is_pointer});
    entry.parameter_bytes = parameter.offset + parameter.size;
  }
}

// Describes the variants that were made, except those that cannot be given the program's arguments.
void Builder::DescribeVariants(const passes::KernelFacts& facts,
                               store::BundleKernel& kernel) const {
  store::KernelEntry& entry = kernel.entry;
  const fatbin::CubinKernel* const original = original_.Kernel(facts.name);
  const std::string unknown = CompareOriginal(original, facts.parameters);
  // The code of a variant. Null where there is none, or where it cannot be given the program's arguments; in the
  // second case the reason is added to the refusal. `launch_bytes` is the size of the variant's own last parameter.
  // The bundle has one offset for that parameter of both variants, so a sliced variant with another offset is left out.
  const auto usable = [&](Variant variant, const char* what, uint32_t launch_bytes) {
    const fatbin::CubinKernel* code = VariantOf(facts.name, variant);
    if (code == nullptr) return code;
    std::string why = !unknown.empty() ? unknown : CompareVariant(*original, *code, launch_bytes);
    if (why.empty() && (entry.flags & store::kPreemptible) != 0 &&
        code->params.back().offset != entry.launch_offset) {
      why = "its own parameter lies elsewhere than the preemptible variant's";
    }
    Note(kernel.refusal, what, why);
    if (!why.empty()) return static_cast<const fatbin::CubinKernel*>(nullptr);
    entry.launch_offset = code->params.back().offset;
    return code;
  };
  if (const auto* code =
          usable(Variant::kPreemptible, "preemptible", sizeof(runtime::PreemptParams))) {
    entry.flags |= store::kPreemptible;
    entry.variant_registers = code->registers;
    entry.variant_static_shared = static_cast<uint32_t>(code->shared_bytes);
    entry.variant_local_bytes = LocalBytes(*code);
    const Comparison comparison = Compare(facts.name, Variant::kPreemptible);
    if (!comparison.exact) entry.flags |= store::kNotBitExact;
    Note(kernel.differences, "preemptible", comparison.difference);
  }
  if (const auto* code = usable(Variant::kSliced, "sliced", sizeof(runtime::SliceParams))) {
    entry.flags |= store::kSliced;
    entry.sliced_registers = code->registers;
    const Comparison comparison = Compare(facts.name, Variant::kSliced);
    if (!comparison.exact) entry.flags |= store::kSlicedNotBitExact;
    Note(kernel.differences, "sliced", comparison.difference);
  }
}

store::BundleKernel Builder::Describe(const passes::KernelFacts& facts) const {
  store::BundleKernel kernel;
  kernel.name = facts.name;
  if (facts.preemptible_refusal == facts.sliced_refusal) {
    kernel.refusal = facts.preemptible_refusal;
  } else {
    Note(kernel.refusal, "preemptible", facts.preemptible_refusal);
    Note(kernel.refusal, "sliced", facts.sliced_refusal);
  }
  DescribeOriginal(facts, kernel);
  DescribeVariants(facts, kernel);
  if (facts.may_wait_on_blocks) kernel.entry.flags |= store::kMayWaitOnBlocks;
  if (facts.one_dimensional_blocks) kernel.entry.flags |= store::kOneDimensionalBlocks;
  DescribeTask(kernel);
  return kernel;
}

Result<std::vector<std::byte>> Builder::Bundle() {
  store::BundleWriter writer(input_.arch, complete_ ? 0u : uint32_t{store::kIncomplete});
  for (const passes::KernelFacts& facts : side_.kernels) writer.AddKernel(Describe(facts));
  // side_ has no entry for a kernel that was refused, so its facts are only the name and the reason.
  for (const auto& [name, complaint] : refused_) {
    passes::KernelFacts facts{.name = name};
    facts.preemptible_refusal = facts.sliced_refusal = complaint;
    writer.AddKernel(Describe(facts));
  }
  const auto add_variables = [&writer](store::ImageKind kind, const auto& variables) {
    for (const passes::VariableFact& variable : variables) {
      uint32_t flags = 0;
      if (variable.is_managed) flags |= store::kManaged;
      if (variable.is_constant) flags |= store::kConstant;
      writer.AddVariable(kind, variable.name, variable.bytes, flags);
    }
  };
  add_variables(store::ImageKind::kSide, side_.variables);
  add_variables(store::ImageKind::kTasks, tasks_.variables);
  if (has_code_) {
    writer.SetCode(store::ImageKind::kSide, std::as_bytes(std::span(code_.bytes)), side_ptx_);
  }
  if (!tasks_.kernels.empty()) {
    writer.SetCode(store::ImageKind::kTasks, std::as_bytes(std::span(tasks_.cubin)), tasks_.ptx);
    writer.SetTaskRegisters(tasks_.registers);
  }
  return writer.Finish();
}

/// 'a' of {"sm_90a"} for 90: PTX that stands by itself, as Triton's, says only in its text that it is for exactly that
/// architecture [11.1.2].
char SuffixOf(const std::vector<std::string>& targets, uint32_t arch) {
  const std::string name = fmt::format("sm_{}", arch);
  for (const std::string& target : targets) {
    if (target.size() == name.size() + 1 && target.starts_with(name)) return target.back();
  }
  return 0;
}

Result<BuiltModule> Builder::Build() {
  Result<ptx::Module> module = ptx::Parse(input_.ptx, input_.name);
  if (!module) return module.error();
  module_ = *std::move(module);
  if (input_.arch_suffix == 0) input_.arch_suffix = SuffixOf(module_.targets, input_.arch);
  for (const auto& item : module_.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    if (!options_.wants || options_.wants(function->name)) wanted_.push_back(function->name);
  }
  if (wanted_.empty()) return BuiltModule{};
  ReadOriginal();
  if (original_complaint_.empty()) PinRoundings();
  if (!original_complaint_.empty()) {
    for (const std::string& kernel : wanted_) refused_[kernel] = original_complaint_;
  } else if (Status made = FirstTry([&] { return MakeVariants(1); }); !made) {
    FindRefused(wanted_);
    // All variants together may take longer to compile than any of the parts did.
    if (Status again = MakeVariants(4); !again) {
      for (const std::string& kernel : wanted_) refused_.try_emplace(kernel, again.error().message);
      side_ = {};
    }
  }
  if (has_code_) BoundRegisters();
  if (original_complaint_.empty()) MakeTasks();
  Result<std::vector<std::byte>> bundle = Bundle();
  if (!bundle) return bundle.error();
  return BuiltModule{*std::move(bundle), compilations_};
}

}  // namespace

Result<BuiltModule> BuildModule(const ModuleInput& input, const ModuleOptions& options,
                                const Compiler& compiler) {
  return Builder(input, options, compiler).Build();
}

}  // namespace cupola::build
