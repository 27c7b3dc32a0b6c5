#include "device/compiler/passes/task_module.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "device/compiler/passes/directives.h"
#include "device/compiler/passes/parameters.h"
#include "device/compiler/passes/plan.h"
#include "device/compiler/passes/read_only_loads.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/task_body.h"
#include "device/compiler/passes/variables.h"
#include "device/compiler/ptx/validate.h"
#include "device/runtime/task_record.h"

namespace cupola::passes {
namespace {

constexpr std::string_view kRunBody = "cupola_run_body";

ptx::Variable Parameter(std::string_view name) {
  ptx::Variable parameter;
  parameter.space = ptx::StateSpace::kParam;
  parameter.type = "b32";
  parameter.name = name;
  return parameter;
}

// Code behind the call of a body: it uses values with which the body was called, so that they stay
// in registers until then. None of these values (the record's address, the block, the body's
// number) ever has all bits set.
std::string UseOf(uint32_t held) {
  constexpr std::array<const char*, kHoldable> kValues = {"%r1", "%r3", "%r4", "%r5", "%r0"};
  std::string code;
  for (uint32_t i = 0; i < kHoldable; ++i) {
    if ((held >> i & 1) == 0) continue;
    code += std::string("setp.eq.u32 %p0, ") + kValues[i] + ", 4294967295;\n@%p0 trap;\n";
  }
  return code;
}

// Makes void cupola_run_body(body, ...), which calls the body with that number.
ptx::Function MakeRunBody(const std::vector<std::string>& bodies, uint32_t held) {
  ptx::Function function;
  function.name = kRunBody;
  function.params = TaskBodyParameters();
  function.params.insert(function.params.begin(), Parameter("cupola_body"));
  std::string arguments;
  std::string code = ".reg .b32 %r<16>;\n.reg .pred %p<1>;\nld.param.u32 %r0, [cupola_body];\n";
  uint32_t count = 0;
  for (const ptx::Variable& parameter : TaskBodyParameters()) {
    const std::string number = std::to_string(++count);
    code += "ld.param.u32 %r" + number + ", [" + parameter.name + "];\n";
    arguments += (count == 1 ? "a" : ", a") + number;
  }
  std::string labels;
  for (size_t i = 0; i < bodies.size(); ++i) {
    labels += (i == 0 ? "$cupola_body_" : ", $cupola_body_") + std::to_string(i);
  }
  code += "$cupola_bodies: .branchtargets " + labels + ";\nbrx.idx %r0, $cupola_bodies;\n";
  for (size_t i = 0; i < bodies.size(); ++i) {
    code += "$cupola_body_" + std::to_string(i) + ":\n{\n";
    for (uint32_t each = 1; each <= count; ++each) {
      const std::string number = std::to_string(each);
      code += ".param .b32 a" + number + ";\nst.param.b32 [a" + number + "], %r" + number + ";\n";
    }
    code += "call " + bodies[i] + ", (" + arguments + ");\n}\n" + UseOf(held) + "ret;\n";
  }
  function.body = ptx::Block{.statements = Snippet(code)};
  return function;
}

class TaskModuleBuilder {
 public:
  TaskModuleBuilder(const ptx::Module& original, const ptx::Module& master,
                    const TaskModuleOptions& options)
      : original_(original),
        master_(master),
        options_(options),
        planner_(original, options.arch),
        variables_(original) {}

  Result<TaskModule> Build();

 private:
  Status PlanKernels();
  std::string Refuse(const KernelPlan& plan) const;
  std::string NameOfMaster(const KernelPlan& plan) const;
  void Include(const KernelPlan& plan);
  void SetHead();
  void AddVariables();
  void AddMaster();
  void AddFunctions();
  void AddBodies();

  const ptx::Module& original_;
  const ptx::Module& master_;
  const TaskModuleOptions& options_;
  Planner planner_;
  VariableTable variables_;
  std::vector<KernelPlan> plans_;                 // of kernels that can be tasks
  std::set<std::string_view> functions_, names_;  // functions their code calls; all names in it
  TaskModule made_;
};

// A name that the kernel and the MasterKernel both use: the program was built with tasks of its
// own. "": there is none.
std::string TaskModuleBuilder::NameOfMaster(const KernelPlan& plan) const {
  std::set<std::string_view> own(plan.reach.names.begin(), plan.reach.names.end());
  for (const ptx::Function* function : plan.reach.functions) own.insert(function->name);
  for (const auto& item : master_.items) {
    std::string_view name;
    if (const auto* variable = std::get_if<ptx::Variable>(&item)) name = variable->name;
    if (const auto* function = std::get_if<ptx::Function>(&item)) name = function->name;
    if (!name.empty() && own.contains(name)) return std::string(name);
  }
  return "";
}

std::string TaskModuleBuilder::Refuse(const KernelPlan& plan) const {
  if (!plan.preemptible_refusal.empty()) return plan.preemptible_refusal;
  if (std::string name = NameOfMaster(plan); !name.empty()) {
    return "a name of the program and of the MasterKernel alike: " + name;
  }
  return RefuseTask(plan, planner_.calls(), options_.arch);
}

Status TaskModuleBuilder::PlanKernels() {
  Result<std::vector<KernelPlan>> plans = planner_.PlanAll(options_.kernels);
  if (!plans) return plans.error();
  for (KernelPlan& plan : *plans) {
    TaskFacts facts{.name = plan.kernel->name, .refusal = Refuse(plan)};
    if (facts.refusal.empty()) {
      facts.body = static_cast<uint32_t>(plans_.size());
      facts.static_shared = LayOutShared(plan, planner_.calls()).bytes;
      facts.uses_barrier = UsesBlockBarrier(plan);
      facts.parameters = FindParameterFacts(*plan.kernel, options_.arch).parameters;
      plans_.push_back(std::move(plan));
    }
    made_.kernels.push_back(std::move(facts));
  }
  return {};
}

void TaskModuleBuilder::Include(const KernelPlan& plan) {
  for (const ptx::Function* function : plan.reach.functions) {
    if (!function->is_entry) functions_.insert(function->name);
  }
  for (const std::string_view name : plan.reach.names) {
    names_.insert(name);
    variables_.Use(name);
  }
}

// Takes the higher PTX version of the two modules, and the MasterKernel's target: the task module is
// for that architecture or later ones.
void TaskModuleBuilder::SetHead() {
  ptx::Module& module = made_.module;
  module = {};
  module.name = original_.name;
  const auto version = std::max(std::pair(original_.version_major, original_.version_minor),
                                std::pair(master_.version_major, master_.version_minor));
  module.version_major = version.first;
  module.version_minor = version.second;
  module.targets = master_.targets;
  module.address_size = master_.address_size;
  module.has_address_size = true;
}

void TaskModuleBuilder::AddVariables() {
  auto& items = made_.module.items;
  const std::vector<const ptx::Variable*> reached = variables_.Number();
  made_.variables = VariableFacts(reached);
  if (!reached.empty()) items.push_back(AddressArray(reached.size()));
  for (const auto& item : original_.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item);
    if (variable == nullptr || !names_.contains(variable->name)) continue;
    if (variables_.IsCopied(variable->name)) items.push_back(CopyOf(*variable));
  }
}

void TaskModuleBuilder::AddMaster() {
  for (const auto& item : master_.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
      made_.module.items.push_back(*variable);
    }
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr) continue;
    ptx::Function copy = *function;
    if (copy.name == kRunBody) copy.linking.clear();
    if (copy.body) DropLines(*copy.body);
    if (copy.name == kMasterName) {
      for (ptx::Directive& attribute : copy.attributes) {
        if (IsDirective(attribute, "minnctapersm")) {
          attribute.text =
              ".minnctapersm " + std::to_string(runtime::MtbsOfAnSm(options_.registers));
        } else if (IsDirective(attribute, "maxntid")) {
          attribute.text =
              ".maxntid " + std::to_string(runtime::MtbThreads(options_.registers)) + ", 1, 1";
        }
      }
    }
    made_.module.items.push_back(std::move(copy));
  }
}

void TaskModuleBuilder::AddFunctions() {
  for (const auto& item : original_.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || function->is_entry) continue;
    const bool is_used =
        functions_.contains(function->name) || (!function->body && names_.contains(function->name));
    if (!is_used) continue;
    ptx::Function copy = *function;
    if (copy.body) {
      DropLines(*copy.body);
      ReadCoherently(copy);
      ReachVariablesByAddress(copy, variables_);
    }
    made_.module.items.push_back(std::move(copy));
  }
}

void TaskModuleBuilder::AddBodies() {
  std::vector<std::string> names;
  for (const KernelPlan& plan : plans_) {
    ptx::Function body = MakeTaskBody(plan, LayOutShared(plan, planner_.calls()), options_.arch);
    ReachVariablesByAddress(body, variables_);
    names.push_back(body.name);
    made_.module.items.push_back(std::move(body));
  }
  made_.module.items.push_back(MakeRunBody(names, options_.held));
}

Result<TaskModule> TaskModuleBuilder::Build() {
  if (Status planned = PlanKernels(); !planned) return planned.error();
  SetHead();
  if (plans_.empty()) return std::move(made_);
  for (const KernelPlan& plan : plans_) Include(plan);
  AddVariables();
  AddMaster();
  AddFunctions();
  AddBodies();
  for (const ptx::Diagnostic& diagnostic : ptx::Validate(made_.module)) {
    if (diagnostic.severity == ptx::Severity::kError) {
      return MakeError(ErrorCode::kInternal, "task module: " + diagnostic.message);
    }
  }
  return std::move(made_);
}

}  // namespace

Result<TaskModule> MakeTaskModule(const ptx::Module& original, const ptx::Module& master,
                                  const TaskModuleOptions& options) {
  return TaskModuleBuilder(original, master, options).Build();
}

}  // namespace cupola::passes
