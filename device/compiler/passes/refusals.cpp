#include "device/compiler/passes/refusals.h"

#include "device/compiler/passes/plan.h"
#include "device/compiler/passes/task_body.h"

namespace cupola::passes {

std::vector<KernelRefusals> FindRefusals(const ptx::Module& module, uint32_t arch) {
  const Planner planner(module, arch);
  std::vector<KernelRefusals> refusals;
  for (const auto& item : module.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    const KernelPlan plan = planner.Plan(*function);
    refusals.push_back({function->name, plan.preemptible_refusal, plan.sliced_refusal,
                        plan.preemptible_refusal.empty() ? RefuseTask(plan, planner.calls(), arch)
                                                         : plan.preemptible_refusal});
  }
  return refusals;
}

}  // namespace cupola::passes
