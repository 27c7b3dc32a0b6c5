#include "device/compiler/passes/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "device/compiler/passes/block_ids.h"
#include "device/compiler/passes/early_return.h"
#include "device/compiler/passes/parameters.h"
#include "device/compiler/ptx/flow_graph.h"
#include "device/compiler/ptx/walk.h"
#include "device/runtime/preempt_control.h"

namespace cupola::passes {
namespace {

using ptx::Feature;

struct FeatureRefusal {
  Feature feature;
  const char* reason;
};

// Features that no variant can have.
constexpr std::array kForBoth = {
    FeatureRefusal{Feature::kGridSync, "grid synchronisation: all blocks must run at once"},
    FeatureRefusal{Feature::kCluster, "clusters: their blocks must run together"},
    FeatureRefusal{Feature::kProgrammaticLaunch,
                   "programmatic launch (griddepcontrol): bound to the order of launches"},
    FeatureRefusal{Feature::kDynamicParallelism, "dynamic parallelism: launches of its own"},
};

// Features that a loop over blocks cannot have.
constexpr std::array kForLoop = {
    FeatureRefusal{Feature::kMbarrier, "mbarrier: its phases would live on into the next block"},
    FeatureRefusal{Feature::kBulkCopy,
                   "bulk copy (TMA): copies and their barriers would live on into the next block"},
    FeatureRefusal{Feature::kPlacement,
                   "placement (%smid, %warpid, %gridid): blocks share a worker"},
    FeatureRefusal{Feature::kRegisterReallocation,
                   "setmaxnreg: registers would stay moved in the next block"},
};

bool HasFunctionAddress(const ptx::Initializer& init, const CallGraph& calls) {
  if (!init.text.empty() && calls.Find(init.text) != nullptr) return true;
  return std::any_of(init.elements.begin(), init.elements.end(),
                     [&](const auto& element) { return HasFunctionAddress(element, calls); });
}

bool NamesRegister(const ptx::Instruction& instruction, std::string_view prefix) {
  bool names = false;
  ForEachOperandOf(instruction, [&](const ptx::Operand& operand) {
    names |= std::string_view(operand.text).starts_with(prefix);
  });
  return names;
}

// Operations of a warp in which lanes that have returned would have to take part. activemask is not
// one: it asks which lanes are there.
bool IsWarpWide(const ptx::Instruction& instruction) {
  static constexpr std::array kOpcodes = {"shfl",     "vote",     "match",    "redux",
                                          "elect",    "mma",      "wmma",     "wgmma",
                                          "ldmatrix", "stmatrix", "movmatrix"};
  const bool warp_barrier = (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
                            instruction.HasModifier("warp");
  return warp_barrier ||
         std::find(kOpcodes.begin(), kOpcodes.end(), instruction.opcode) != kOpcodes.end();
}

bool UsesAsyncMbarrier(const ptx::Instruction& instruction) {
  return (instruction.opcode == "st" || instruction.opcode == "red") &&
         instruction.HasModifier("async");
}

// Calls visit(const ptx::Operand&) for each name to which an instruction may write, also those in a vector, a pair or the
// results of a call. An instruction that writes to none may have its first operand visited.
template <typename Visit>
void ForEachDestination(const ptx::Instruction& instruction, Visit visit) {
  if (instruction.operands.empty()) return;
  const ptx::Operand& first = instruction.operands[0];
  if (first.kind == ptx::Operand::Kind::kAddress) return;
  if (instruction.opcode == "call" && CalleeOf(instruction) == &first) return;  // it has no results
  ForEachOperand(first, [&](const ptx::Operand& each) {
    if (!each.text.empty()) visit(each);
  });
}

// Finds the number of a barrier: a literal, or a register that is set once, to a literal.
bool ResolveNumber(const ptx::Function& function, const ptx::Operand& operand, uint32_t* number) {
  if (operand.kind == ptx::Operand::Kind::kInteger) {
    *number = static_cast<uint32_t>(operand.integer);
    return true;
  }
  uint32_t sets = 0;
  bool literal = false;
  ForEachInstruction(*function.body, [&](const ptx::Instruction& each) {
    if (each.opcode == "bar" || each.opcode == "barrier") return;
    const uint32_t before = sets;
    ForEachDestination(each, [&](const ptx::Operand& set) { sets += set.text == operand.text; });
    if (sets == before) return;
    literal = each.opcode == "mov" && each.operands.size() == 2 && !each.guard &&
              each.operands[1].kind == ptx::Operand::Kind::kInteger;
    if (literal) *number = static_cast<uint32_t>(each.operands[1].integer);
  });
  return sets == 1 && literal;
}

// Finds a name that both a body and the module declare as a variable: this folder does not follow
// scoping. "": none.
std::string ShadowedVariable(const KernelPlan& plan, const CallGraph& calls) {
  for (const ptx::Function* function : plan.reach.functions) {
    std::string shadowed;
    ForEachStatement(*function->body, [&](const ptx::Statement& statement) {
      const auto* variable = std::get_if<ptx::Variable>(&statement.node);
      if (variable != nullptr && calls.FindVariable(variable->name) != nullptr) {
        shadowed = variable->name;
      }
    });
    if (!shadowed.empty()) return shadowed;
  }
  return "";
}

bool DeclaresGlobals(const KernelPlan& plan) {
  for (const ptx::Function* function : plan.reach.functions) {
    bool declares = false;
    ForEachStatement(*function->body, [&](const ptx::Statement& statement) {
      const auto* variable = std::get_if<ptx::Variable>(&statement.node);
      declares = declares || (variable != nullptr && (variable->space == ptx::StateSpace::kGlobal ||
                                                      variable->space == ptx::StateSpace::kConst));
    });
    if (declares) return true;
  }
  return false;
}

// Whether the registers by which a function calls can only hold addresses of functions that its
// code names.
bool CallsOnlyNamedFunctions(const ptx::Function& function, const CallGraph& calls) {
  std::set<std::string> unknown;
  for (const ptx::Variable& parameter : function.params) unknown.insert(parameter.name);
  for (bool changed = true; changed;) {
    changed = false;
    ForEachInstruction(*function.body, [&](const ptx::Instruction& each) {
      if (each.operands.empty()) return;
      bool known = (each.opcode == "mov" || each.opcode == "selp" || each.opcode == "cvta") &&
                   each.operands[0].kind == ptx::Operand::Kind::kName;
      const size_t sources = each.opcode == "selp" ? 3 : 2;
      for (size_t i = 1; known && i < std::min(sources, each.operands.size()); ++i) {
        const std::string& text = each.operands[i].text;
        known = calls.Find(text) != nullptr ||
                (text.starts_with("%") && !unknown.contains(text) && !text.starts_with("%SP"));
      }
      if (known) return;
      ForEachDestination(each, [&](const ptx::Operand& set) { changed = unknown.insert(set.text).second || changed; });
    });
  }
  bool only = true;
  ForEachInstruction(*function.body, [&](const ptx::Instruction& each) {
    if (each.opcode != "call") return;
    const ptx::Operand* callee = CalleeOf(each);
    if (callee != nullptr && callee->text.starts_with("%")) {
      only = only && !unknown.contains(callee->text);
    }
  });
  return only;
}

// Whether the threads of a block have more in common than global memory: a barrier or shared
// memory.
bool SharesInsideBlocks(const KernelPlan& plan, const CallGraph& calls) {
  for (const std::string_view name : plan.reach.names) {
    const ptx::Variable* variable = calls.FindVariable(name);
    if (variable != nullptr && variable->space == ptx::StateSpace::kShared) return true;
  }
  for (const ptx::Function* function : plan.reach.functions) {
    bool declares = false;
    ForEachStatement(*function->body, [&](const ptx::Statement& statement) {
      const auto* variable = std::get_if<ptx::Variable>(&statement.node);
      declares |= variable != nullptr && variable->space == ptx::StateSpace::kShared;
    });
    if (declares) return true;
  }
  return AnyInstruction(plan, [](const ptx::Instruction& each) {
    return IsUncountedBarrier(each) || IsCountedBarrier(each) ||
           std::any_of(each.modifiers.begin(), each.modifiers.end(), [](const auto& modifier) {
             return std::string_view(modifier).starts_with("shared");
           });
  });
}

// Whether a device function that the kernel reaches has a barrier of all threads.
bool HasFunctionThatWaits(const KernelPlan& plan) {
  bool any = false;
  for (const ptx::Function* function : plan.reach.functions) {
    if (function->is_entry) continue;
    ForEachInstruction(*function->body,
                       [&any](const auto& each) { any = any || IsUncountedBarrier(each); });
  }
  return any;
}

// Whether a lane may return while others of its warp still come to an instruction that needs the
// whole warp. Where that is ruled out only for blocks of one dimension, the plan is for such
// blocks.
bool LeavesEarly(KernelPlan& plan, const ptx::IsBarrier& needs_warp) {
  const ptx::FlowGraph graph = ptx::BuildFlowGraph(*plan.kernel);
  if (!ptx::HasEarlyReturn(graph, needs_warp, ptx::Threads::kOfWarp)) return false;
  if (ptx::HasEarlyReturn(graph, needs_warp, ptx::Threads::kOfWarpInRow)) return true;
  plan.one_dimensional_blocks = true;
  return false;
}

}  // namespace

Planner::Planner(const ptx::Module& module, uint32_t arch)
    : module_(module), arch_(arch), calls_(module), variables_(module) {
  for (ptx::KernelFeatures& features : ptx::AnalyzeKernels(module)) {
    features_[features.kernel] = std::move(features);
  }
  for (const auto& item : module.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item);
    if (variable != nullptr && variable->init && HasFunctionAddress(*variable->init, calls_)) {
      functions_in_initializers_ = true;
    }
  }
}

// Whether an instruction is such a barrier, or a call of a function that may come to one.
bool Planner::WaitsInside(const ptx::Instruction& instruction,
                          bool (*is_barrier)(const ptx::Instruction&)) const {
  if (is_barrier(instruction)) return true;
  if (instruction.opcode != "call") return false;
  const ptx::Operand* callee = CalleeOf(instruction);
  const ptx::Function* function = callee == nullptr ? nullptr : calls_.Find(callee->text);
  if (function == nullptr) return false;
  const auto [at, fresh] = waits_.try_emplace({function, is_barrier}, false);
  if (fresh) {
    KernelPlan called;
    called.reach = calls_.From(*function);
    at->second = AnyInstruction(called, is_barrier);
  }
  return at->second;
}

// Sets shape.meeting and shape.barrier, or the refusal.
void Planner::PlanBarriers(KernelPlan& plan) const {
  std::set<uint32_t> counted;
  bool waits = false, reduces = false, known = true;
  for (const ptx::Function* function : plan.reach.functions) {
    ForEachInstruction(*function->body, [&](const ptx::Instruction& each) {
      const bool uncounted = IsUncountedBarrier(each);
      if (!uncounted && !IsCountedBarrier(each)) return;
      waits |= uncounted;
      reduces |= uncounted && each.HasModifier("red");
      uint32_t number = 0;
      const bool resolved =
          !each.operands.empty() && ResolveNumber(*function, BarrierNumber(each), &number);
      // An uncounted barrier may have an unknown number, but if a counted one has, no number is
      // known to be free.
      known = known && (resolved || uncounted);
      if (!uncounted) counted.insert(number);
    });
  }
  const auto waits_uncounted = [this](const auto& each) {
    return WaitsInside(each, IsUncountedBarrier);
  };
  bool divergent = plan.reach.calls_pointers && waits;
  for (const ptx::Function* function : plan.reach.functions) {
    if (!waits || divergent) break;
    const ptx::FlowGraph graph = ptx::BuildFlowGraph(*function);
    divergent = ptx::HasEarlyReturn(graph, waits_uncounted) ||
                ptx::HasDivergentBarrier(graph, waits_uncounted, !function->is_entry);
  }
  if (divergent && HasFunctionThatWaits(plan)) {
    plan.preemptible_refusal = "barriers in functions, where threads may come to different ones";
  }
  if (!known) plan.preemptible_refusal = "the number of a counted barrier is in a register";
  uint32_t barrier = 0;
  while (counted.contains(barrier)) ++barrier;
  if (barrier > 15) plan.preemptible_refusal = "no barrier is free";
  plan.shape.barrier = barrier;
  plan.shape.meeting = !divergent ? Meeting::kBarrier
                       : reduces  ? Meeting::kReducing
                                  : Meeting::kRendezvous;
  if (counted.empty()) return;
  const auto waits_counted = [this](const auto& each) {
    return WaitsInside(each, IsCountedBarrier);
  };
  if (LeavesEarly(plan, waits_counted)) {
    plan.preemptible_refusal = "counted barriers after an early return";
  }
}

std::string Planner::RefuseBoth(const KernelPlan& plan, const ptx::KernelFeatures& features) const {
  for (const auto& [feature, reason] : kForBoth) {
    if (features.Has(feature)) return reason;
  }
  for (const ptx::FeatureNote& note : features.notes) {
    if (note.feature == Feature::kUnknownCall) return "calls outside the module: " + note.detail;
  }
  if (plan.reach.names_kernels) return "takes the address of a kernel";
  if (module_.address_size != 64) return "addresses of 32 bits";
  for (const std::string_view name : plan.reach.names) {
    const ptx::Variable* variable = calls_.FindVariable(name);
    if (variable == nullptr) continue;
    const bool global =
        variable->space == ptx::StateSpace::kGlobal || variable->space == ptx::StateSpace::kConst;
    if (variable->space == ptx::StateSpace::kTex ||
        (global && !variables_.IsOfProgram(name) && !variables_.IsCopied(name))) {
      return "texture or surface reference " + std::string(name);
    }
  }
  if (DeclaresGlobals(plan)) return "a variable of the module declared in a body";
  if (const std::string name = ShadowedVariable(plan, calls_); !name.empty()) {
    return "a name of a body and of the module alike: " + name;
  }
  if (AnyInstruction(plan, [](const auto& each) {
        return each.opcode == "isspacep" && each.HasModifier("const");
      })) {
    return "isspacep.const: constants are reached through global memory";
  }
  if (AnyInstruction(plan, [](const auto& each) {
        return each.opcode == "clusterlaunchcontrol" || NamesRegister(each, "%gridid");
      })) {
    return "reads or changes how its grid was launched";
  }
  for (const ptx::Function* function : plan.reach.functions) {
    if (HasOddBlockIds(*function)) return "reads %ctaid as a vector or as 16 bits";
  }
  // These lost their meaning with sm_70, and side modules are for sm_70 at least.
  if (AnyInstruction(plan, [](const auto& each) {
        return (each.opcode == "shfl" || each.opcode == "vote") && !each.HasModifier("sync");
      })) {
    return "warp operations without .sync";
  }
  if (BytesWithLaunchParameter(*plan.kernel, arch_, sizeof(runtime::PreemptParams)) >
      kMaxParameterBytes) {
    return "parameters fill their block";
  }
  if (plan.reach.calls_pointers) {
    if (functions_in_initializers_) return "calls through pointers kept in variables";
    for (const ptx::Function* function : plan.reach.functions) {
      if (!CallsOnlyNamedFunctions(*function, calls_)) {
        return "calls through pointers that may come from elsewhere";
      }
    }
  }
  return "";
}

std::string Planner::RefuseLoop(KernelPlan& plan, const ptx::KernelFeatures& features) const {
  for (const auto& [feature, reason] : kForLoop) {
    if (features.Has(feature)) return reason;
  }
  if (AnyInstruction(plan, UsesAsyncMbarrier)) return kForLoop[0].reason;
  if (AnyInstruction(plan, [](const auto& each) { return each.opcode == "tcgen05"; })) {
    return "tensor memory: its allocation would live on into the next block";
  }
  if (AnyInstruction(plan, [](const auto& each) { return each.opcode == "alloca"; })) {
    return "alloca: the stack would grow with every block";
  }
  if (AnyInstruction(plan, [](const auto& each) {
        return NamesRegister(each, "%total_smem_size") || NamesRegister(each, "%aggr_smem_size") ||
               NamesRegister(each, "%reserved_smem");
      })) {
    return "reads the size of its shared memory";
  }
  if (AnyInstruction(plan, [](const auto& each) {
        return (each.opcode == "bar" || each.opcode == "barrier") && each.HasModifier("arrive");
      })) {
    return "arrives at a named barrier without waiting: it may be left half full";
  }
  for (const ptx::Function* function : plan.reach.functions) {
    if (function->is_entry) continue;
    bool exits = false;
    ForEachInstruction(*function->body, [&](const auto& each) { exits |= each.opcode == "exit"; });
    if (exits) return "exit inside a device function";
  }
  const auto warp_wide = [this](const auto& each) { return WaitsInside(each, IsWarpWide); };
  if (LeavesEarly(plan, warp_wide)) return "warp operations after an early return";
  PlanBarriers(plan);
  return plan.preemptible_refusal;
}

KernelPlan Planner::Plan(const ptx::Function& kernel) const {
  KernelPlan plan;
  plan.kernel = &kernel;
  plan.reach = calls_.From(kernel);
  const ptx::KernelFeatures& features = features_.find(kernel.name)->second;
  for (const ptx::FeatureNote& note : features.notes) {
    if (note.feature == Feature::kMayWait) plan.wait = note.detail;
    if (note.feature != Feature::kStaticShared) continue;
    std::from_chars(note.detail.data(), note.detail.data() + note.detail.size(),
                    plan.static_shared);
  }
  for (const ptx::Function* function : plan.reach.functions) {
    if (!function->is_entry && ReadsBlockIds(*function)) plan.tells_functions = true;
  }
  plan.shape.tells_functions = plan.tells_functions;
  plan.shape.waits_for_copies = AnyInstruction(
      plan, [](const auto& each) { return each.opcode == "cp" && each.HasModifier("async"); });
  plan.shape.shares_in_blocks = !plan.wait.empty() || plan.tells_functions ||
                                plan.reach.calls_pointers || SharesInsideBlocks(plan, calls_);
  plan.sliced_refusal = RefuseBoth(plan, features);
  plan.preemptible_refusal = plan.sliced_refusal;
  if (plan.preemptible_refusal.empty()) plan.preemptible_refusal = RefuseLoop(plan, features);
  return plan;
}

Result<std::vector<KernelPlan>> Planner::PlanAll(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const ptx::Function* kernel = calls_.Find(name);
    if (kernel == nullptr || !kernel->is_entry) {
      return MakeError(ErrorCode::kNotFound, "no kernel \"" + name + "\" in the module");
    }
  }
  std::vector<KernelPlan> plans;
  for (const auto& item : module_.items) {
    const auto* kernel = std::get_if<ptx::Function>(&item);
    if (kernel == nullptr || !kernel->is_entry || !kernel->body) continue;
    const bool wanted =
        names.empty() || std::find(names.begin(), names.end(), kernel->name) != names.end();
    if (wanted) plans.push_back(Plan(*kernel));
  }
  return plans;
}

}  // namespace cupola::passes
