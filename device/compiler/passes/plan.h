// Decides which variants can be made of each kernel of a module, and how: the preconditions of all
// passes, in one place. The passes (side_module.h, task_module.h) and the list of refusals
// (refusals.h) make a Planner for each module. A Planner borrows from the module, which must
// outlive it. Internal to the folder; one thread uses a planner.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/compiler/passes/call_graph.h"
#include "device/compiler/passes/variables.h"
#include "device/compiler/passes/worker_code.h"
#include "device/compiler/ptx/features.h"
#include "device/compiler/ptx/ir.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::passes {

/// What can be made of one kernel. A refusal is a reason, as a phrase for the user.
struct KernelPlan {
  const ptx::Function* kernel = nullptr;
  Reach reach;                      ///< what the kernel reaches, itself included
  std::string preemptible_refusal;  ///< "": the preemptible variant can be made
  std::string sliced_refusal;       ///< "": the sliced variant can be made
  WorkerShape shape;                ///< of the preemptible variant
  /// Called functions read block indices, so a variant must tell them those of the program's block.
  bool tells_functions = false;
  std::string wait;  ///< why its blocks may wait on one another (ptx/waits.h); "": they do not
  bool one_dimensional_blocks = false;  ///< KernelFacts::one_dimensional_blocks
  uint32_t static_shared = 0;           ///< in bytes (ptx::Feature::kStaticShared)
};

class Planner {
 public:
  /// `arch`: the architecture that the variants are for, 90 for sm_90.
  Planner(const ptx::Module& module, uint32_t arch);
  KernelPlan Plan(const ptx::Function& kernel) const;
  /// Plans of the kernels with these names, in the module's order; of all kernels if `names` is
  /// empty. Errors: kNotFound for a name that is no kernel of the module.
  Result<std::vector<KernelPlan>> PlanAll(const std::vector<std::string>& names) const;
  const CallGraph& calls() const { return calls_; }

 private:
  /// Tells whether an instruction is of one kind of barrier, such as a warp-wide one.
  using IsWait = bool (*)(const ptx::Instruction&);
  bool WaitsInside(const ptx::Instruction& instruction, IsWait is_barrier) const;
  void PlanBarriers(KernelPlan& plan) const;
  std::string RefuseBoth(const KernelPlan& plan, const ptx::KernelFeatures& features) const;
  std::string RefuseLoop(KernelPlan& plan, const ptx::KernelFeatures& features) const;

  const ptx::Module& module_;
  uint32_t arch_;
  CallGraph calls_;
  VariableTable variables_;
  std::unordered_map<std::string, ptx::KernelFeatures> features_;
  bool functions_in_initializers_ = false;  ///< a variable is initialized with a function's address
  /// Answers of WaitsInside so far: whether a function, or one that it calls, has a barrier of the
  /// kind.
  mutable std::map<std::pair<const ptx::Function*, IsWait>, bool> waits_;
};

/// Whether `holds(const ptx::Instruction&)` is true for any instruction that the kernel reaches.
template <typename Holds>
bool AnyInstruction(const KernelPlan& plan, Holds holds) {
  for (const ptx::Function* function : plan.reach.functions) {
    bool found = false;
    ForEachInstruction(*function->body, [&](const auto& each) { found = found || holds(each); });
    if (found) return true;
  }
  return false;
}

}  // namespace cupola::passes
