#include "device/compiler/passes/side_module.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>

#include "device/compiler/passes/block_ids.h"
#include "device/compiler/passes/directives.h"
#include "device/compiler/passes/early_return.h"
#include "device/compiler/passes/parameters.h"
#include "device/compiler/passes/sliced.h"
#include "device/compiler/ptx/validate.h"
#include "device/runtime/preempt_control.h"

namespace cupola::passes {
namespace {

uint32_t TargetNumber(std::string_view target) {
  uint32_t number = 0;
  for (const char c : target) {
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number;
}

}  // namespace

// Takes the head of the original and raises it to what the workers' code needs (sm_70, PTX 6.3; 8.1
// for more than 4 KB of parameters).
void SideModuleBuilder::SetHead() {
  ptx::Module& module = side_.module;
  module.name = original_.name;
  module.version_major = original_.version_major;
  module.version_minor = original_.version_minor;
  std::pair<uint32_t, uint32_t> least(6, 3);
  for (const KernelPlan& plan : plans_) {
    const uint32_t bytes =
        BytesWithLaunchParameter(*plan.kernel, options_.arch, sizeof(runtime::PreemptParams));
    if (bytes > kOldMaxParameterBytes) least = {8, 1};
  }
  if (std::pair(module.version_major, module.version_minor) < least) {
    std::tie(module.version_major, module.version_minor) = least;
  }
  for (const std::string& target : original_.targets) {
    if (target == "debug") continue;
    const bool old = target.starts_with("sm_") && TargetNumber(target) < 70;
    module.targets.push_back(old ? "sm_70" : target);
  }
  module.address_size = original_.address_size;
  module.has_address_size = original_.has_address_size;
}

KernelFacts SideModuleBuilder::FactsOf(const KernelPlan& plan) const {
  KernelFacts facts;
  facts.name = plan.kernel->name;
  facts.preemptible_refusal = options_.preemptible ? plan.preemptible_refusal : "not asked for";
  facts.sliced_refusal = options_.sliced ? plan.sliced_refusal : "not asked for";
  ParameterFacts found = FindParameterFacts(*plan.kernel, options_.arch);
  facts.parameters = std::move(found.parameters);
  facts.parameter_bytes = found.bytes;
  facts.launch_offset = found.launch_offset;
  facts.may_wait_on_blocks = !plan.wait.empty();
  facts.one_dimensional_blocks = plan.one_dimensional_blocks;
  facts.max_threads = MaxThreads(*plan.kernel);
  facts.static_shared = plan.static_shared;
  facts.extra_shared = kWorkerSharedBytes + (plan.tells_functions ? kBlockSharedBytes : 0);
  return facts;
}

void SideModuleBuilder::Include(const KernelPlan& plan) {
  for (const ptx::Function* function : plan.reach.functions) {
    if (!function->is_entry) functions_.insert(function->name);
  }
  for (const std::string_view name : plan.reach.names) {
    names_.emplace(name);
    variables_.Use(name);
  }
  tells_functions_ = tells_functions_ || plan.tells_functions;
}

// Makes the entry with its own parameter and attributes, and its body as it will stand inside the
// variant.
ptx::Function SideModuleBuilder::MakeEntry(const KernelPlan& plan, Variant variant,
                                           uint32_t launch_bytes) const {
  ptx::Function entry = *plan.kernel;
  entry.linking = "visible";
  entry.name = VariantName(plan.kernel->name, variant);
  AddLaunchParameter(entry, launch_bytes);
  DropLines(*entry.body);
  static_assert(offsetof(runtime::SliceParams, grid) == 0);
  MakeBlockIdsVirtual(entry, variant == Variant::kPreemptible
                                 ? offsetof(runtime::PreemptParams, grid)
                                 : offsetof(runtime::SliceParams, grid));
  ReachVariablesByAddress(entry, variables_);
  return entry;
}

ptx::Function SideModuleBuilder::MakePreemptible(const KernelPlan& plan) const {
  ptx::Function entry = MakeEntry(plan, Variant::kPreemptible, sizeof(runtime::PreemptParams));
  RouteReturns(*entry.body);
  WorkerShape shape = plan.shape;
  const bool routes = shape.meeting != Meeting::kBarrier;
  if (routes) shape.resumes = RouteBarriers(*entry.body, shape.meeting, shape.barrier);
  const auto limit = options_.max_registers.find(plan.kernel->name);
  WorkerCode code = MakeWorkerCode(shape);
  std::vector<ptx::Statement> statements = std::move(code.before);
  if (routes) {  // the body stands in the scope of the meeting, which branches back into it
    std::move(entry.body->statements.begin(), entry.body->statements.end(),
              std::back_inserter(statements));
  } else {
    statements.push_back({.node = std::move(*entry.body)});
  }
  statements.insert(statements.end(), std::make_move_iterator(code.after.begin()),
                    std::make_move_iterator(code.after.end()));
  entry.body = ptx::Block{.statements = std::move(statements)};
  if (limit == options_.max_registers.end()) return entry;
  std::erase_if(entry.attributes, [](const ptx::Directive& attribute) {
    return IsDirective(attribute, "maxnreg") || IsDirective(attribute, "minnctapersm") ||
           IsDirective(attribute, "maxnctapersm");
  });
  entry.attributes.push_back(
      {.name = "maxnreg", .text = ".maxnreg " + std::to_string(limit->second)});
  return entry;
}

ptx::Function SideModuleBuilder::MakeSliced(const KernelPlan& plan) const {
  ptx::Function entry = MakeEntry(plan, Variant::kSliced, sizeof(runtime::SliceParams));
  std::vector<ptx::Statement> statements = MakeSliceCode(plan.tells_functions);
  statements.push_back({.node = std::move(*entry.body)});
  entry.body = ptx::Block{.statements = std::move(statements)};
  return entry;
}

ptx::Function SideModuleBuilder::MakeFunction(const ptx::Function& function) const {
  ptx::Function copy = function;
  if (!copy.body) return copy;
  DropLines(*copy.body);
  MakeBlockIdsVirtual(copy, 0);
  ReachVariablesByAddress(copy, variables_);
  return copy;
}

void SideModuleBuilder::AddFunction(const ptx::Function& function) {
  auto& items = side_.module.items;
  if (!function.is_entry) {
    if (functions_.contains(function.name)) {
      items.push_back(MakeFunction(function));
    } else if (!function.body && names_.contains(function.name)) {
      items.push_back(function);  // vprintf, malloc...
    }
    return;
  }
  if (!function.body) return;
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].kernel != &function) continue;
    if (side_.kernels[i].preemptible_refusal.empty()) items.push_back(MakePreemptible(plans_[i]));
    if (side_.kernels[i].sliced_refusal.empty()) items.push_back(MakeSliced(plans_[i]));
  }
}

void SideModuleBuilder::AddItems() {
  auto& items = side_.module.items;
  const std::vector<const ptx::Variable*> reached = variables_.Number();
  side_.variables = VariableFacts(reached);
  if (!reached.empty()) items.push_back(AddressArray(reached.size()));
  if (tells_functions_) items.push_back(BlockIdsVariable());
  for (const auto& item : original_.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
      if (!names_.contains(variable->name)) continue;
      if (variable->space == ptx::StateSpace::kShared) items.push_back(*variable);
      if (variables_.IsCopied(variable->name)) items.push_back(CopyOf(*variable));
    } else if (const auto* function = std::get_if<ptx::Function>(&item)) {
      AddFunction(*function);
    }
  }
}

Result<SideModule> SideModuleBuilder::Build() {
  Result<std::vector<KernelPlan>> plans = planner_.PlanAll(options_.kernels);
  if (!plans) return plans.error();
  plans_ = *std::move(plans);
  SetHead();
  for (const KernelPlan& plan : plans_) {
    const KernelFacts facts = FactsOf(plan);
    side_.kernels.push_back(facts);
    if (facts.sliced_refusal.empty() || facts.preemptible_refusal.empty()) Include(plan);
  }
  AddItems();
  for (const ptx::Diagnostic& diagnostic : ptx::Validate(side_.module)) {
    if (diagnostic.severity == ptx::Severity::kError) {
      return MakeError(ErrorCode::kInternal, "side module: " + diagnostic.message);
    }
  }
  return std::move(side_);
}

}  // namespace cupola::passes
