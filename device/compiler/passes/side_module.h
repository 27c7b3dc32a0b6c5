// Puts a side module together: entries made of a kernel's body and the code around it, the functions that these
// reach, the variables that they name. MakeSideModule (preemptible.h) uses one builder for each module, in one
// thread. Internal to the folder.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "device/compiler/passes/plan.h"
#include "device/compiler/passes/preemptible.h"

namespace cupola::passes {

class SideModuleBuilder {
 public:
  /// Both must outlive the builder.
  SideModuleBuilder(const ptx::Module& original, const SideModuleOptions& options)
      : original_(original), options_(options), planner_(original, options.arch), variables_(original) {}
  /// Makes the module; to be called once. Its errors are those of MakeSideModule.
  Result<SideModule> Build();

 private:
  void SetHead();
  KernelFacts FactsOf(const KernelPlan& plan) const;
  void Include(const KernelPlan& plan);
  ptx::Function MakePreemptible(const KernelPlan& plan) const;
  ptx::Function MakeSliced(const KernelPlan& plan) const;
  ptx::Function MakeEntry(const KernelPlan& plan, Variant variant, uint32_t launch_bytes) const;
  ptx::Function MakeFunction(const ptx::Function& function) const;
  void AddFunction(const ptx::Function& function);
  void AddItems();

  const ptx::Module& original_;
  const SideModuleOptions& options_;
  Planner planner_;
  VariableTable variables_;
  std::vector<KernelPlan> plans_;
  std::set<std::string, std::less<>> functions_;  ///< names of the functions that are included
  std::set<std::string, std::less<>> names_;      ///< names that the included code uses
  bool tells_functions_ = false;
  SideModule side_;
};

}  // namespace cupola::passes
