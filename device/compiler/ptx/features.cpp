#include "device/compiler/ptx/features.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "device/compiler/ptx/call_effects.h"
#include "device/compiler/ptx/flow_graph.h"
#include "device/compiler/ptx/variable_layout.h"
#include "device/compiler/ptx/waits.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::ptx {
namespace {

constexpr std::array<const char*, kFeatureCount> kWords = {"block barrier",
                                                           "early return with barriers",
                                                           "named barrier",
                                                           "warp synchronisation",
                                                           "grid synchronisation",
                                                           "cluster",
                                                           "mbarrier",
                                                           "bulk copy (TMA)",
                                                           "programmatic launch (griddepcontrol)",
                                                           "dynamic parallelism",
                                                           "placement (%smid, %gridid)",
                                                           "may wait for others",
                                                           "static shared memory",
                                                           "dynamic shared memory",
                                                           "local memory",
                                                           "call through a pointer",
                                                           "module variables",
                                                           "printf",
                                                           "assert",
                                                           "device heap",
                                                           "register reallocation (setmaxnreg)",
                                                           "tensor cores",
                                                           "texture or surface",
                                                           "float atomics",
                                                           "calls outside the module"};

bool IsDynamicShared(const Variable& variable) {
  return variable.space == StateSpace::kShared && variable.linking == "extern" &&
         !variable.dims.empty() && variable.dims[0] == 0;
}

bool IsOpcode(const Instruction& instruction, std::initializer_list<std::string_view> opcodes) {
  return std::find(opcodes.begin(), opcodes.end(), instruction.opcode) != opcodes.end();
}

bool HasModifierBeginning(const Instruction& instruction, std::string_view start) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [start](const std::string& own) { return own.starts_with(start); });
}

bool IsFullBlockWait(const Instruction& instruction) {
  return IsOpcode(instruction, {"bar", "barrier"}) && !instruction.HasModifier("warp") &&
         !instruction.HasModifier("cluster");
}

// bar.sync a{, b}; bar.red.op d, a{, b}, c: whether it is anything but barrier 0 of all threads of
// the block.
bool IsNamedBarrier(const Instruction& instruction) {
  if (instruction.HasModifier("arrive")) return true;
  const bool reduces = instruction.HasModifier("red");
  const size_t at = reduces ? 1 : 0;
  if (instruction.operands.size() <= at) return false;
  const Operand& barrier = instruction.operands[at];
  const bool zero = barrier.kind == Operand::Kind::kInteger && barrier.integer == 0;
  return !zero || instruction.operands.size() > (reduces ? 3u : 1u);
}

// What one body shows, without the functions that it calls.
struct BodyFacts {
  std::array<bool, kFeatureCount> has{};
  std::set<std::string> barriers;                ///< their numbers: "1", "%r5"
  std::unordered_set<std::string_view> names;    ///< every name in an operand
  std::unordered_set<std::string_view> callees;  ///< functions that it calls by name
  uint64_t shared_bytes = 0, local_bytes = 0;    ///< of variables in the body
  std::string wait;                              ///< why it may wait for others; "": it does not

  void Set(Feature feature) { has[static_cast<size_t>(feature)] = true; }
  bool Has(Feature feature) const { return has[static_cast<size_t>(feature)]; }
};

void NoteSpecialRegister(std::string_view name, BodyFacts& facts) {
  if (name.starts_with("%envreg")) facts.Set(Feature::kGridSync);
  if (name.starts_with("%cluster") || name.starts_with("%nclusterid") ||
      name == "%is_explicit_cluster") {
    facts.Set(Feature::kCluster);
  }
  if (name == "%smid" || name == "%nsmid" || name == "%gridid" || name == "%warpid" ||
      name == "%nwarpid") {
    facts.Set(Feature::kPlacement);
  }
}

void NoteName(std::string_view text, BodyFacts& facts) {
  if (text.empty()) return;
  const bool special = text[0] == '%' && text.size() > 1 && text[1] >= 'c' && text[1] <= 'w';
  if (special) NoteSpecialRegister(text, facts);
  if (text[0] != '%') facts.names.insert(text);
}

void NoteBarrier(const Instruction& instruction, BodyFacts& facts) {
  if (instruction.HasModifier("warp")) {
    facts.Set(Feature::kWarpSync);
  } else if (instruction.HasModifier("cluster")) {
    facts.Set(Feature::kCluster);
  } else if (IsNamedBarrier(instruction)) {
    facts.Set(Feature::kNamedBarrier);
    const size_t at = instruction.HasModifier("red") ? 1 : 0;
    if (instruction.operands.size() > at) facts.barriers.insert(instruction.operands[at].text);
  } else {
    facts.Set(Feature::kBlockBarrier);
  }
}

void NoteCall(const Instruction& instruction, BodyFacts& facts) {
  const Operand* callee = FindCallee(instruction);
  if (callee == nullptr || callee->text.empty()) return;
  const std::string_view name = callee->text;
  if (name[0] == '%') {
    facts.Set(Feature::kIndirectCall);
  } else if (name == "vprintf") {
    facts.Set(Feature::kPrintf);
  } else if (name == "__assertfail") {
    facts.Set(Feature::kAssert);
  } else if (name == "malloc" || name == "free") {
    facts.Set(Feature::kDeviceHeap);
  } else if (name.starts_with("__cudaCDP2") || name.starts_with("cudaLaunchDevice") ||
             name.starts_with("cudaGetParameterBuffer")) {
    facts.Set(Feature::kDynamicParallelism);
  } else {
    facts.callees.insert(name);
  }
}

void NoteAtomic(const Instruction& instruction, BodyFacts& facts) {
  const bool floating =
      HasModifierBeginning(instruction, "f16") || HasModifierBeginning(instruction, "bf16") ||
      HasModifierBeginning(instruction, "f32") || HasModifierBeginning(instruction, "f64");
  if (floating && instruction.HasModifier("add")) facts.Set(Feature::kFloatAtomic);
}

void NoteInstruction(const Instruction& instruction, BodyFacts& facts) {
  ForEachOperandOf(instruction, [&](const Operand& operand) { NoteName(operand.text, facts); });
  if (IsOpcode(instruction, {"bar", "barrier"})) NoteBarrier(instruction, facts);
  if (IsOpcode(instruction, {"shfl", "vote", "match", "redux", "activemask", "elect"})) {
    facts.Set(Feature::kWarpSync);
  }
  if (IsOpcode(instruction, {"mapa", "getctarank"})) facts.Set(Feature::kCluster);
  if (instruction.opcode == "mbarrier" || instruction.HasModifier("mbarrier")) {
    facts.Set(Feature::kMbarrier);
  }
  if (instruction.HasModifier("bulk")) facts.Set(Feature::kBulkCopy);
  if (instruction.opcode == "griddepcontrol") facts.Set(Feature::kProgrammaticLaunch);
  if (instruction.opcode == "setmaxnreg") facts.Set(Feature::kRegisterReallocation);
  if (IsOpcode(instruction, {"mma", "wmma", "wgmma", "tcgen05"})) facts.Set(Feature::kTensorCore);
  if (IsOpcode(instruction, {"tex", "tld4", "txq", "suld", "sust", "sured", "suq"})) {
    facts.Set(Feature::kTexture);
  }
  if (IsOpcode(instruction, {"atom", "red"})) NoteAtomic(instruction, facts);
  if (instruction.opcode == "call") NoteCall(instruction, facts);
}

void NoteStatements(const Block& block, BodyFacts& facts) {
  ForEachStatement(block, [&](const Statement& statement) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
      NoteInstruction(*instruction, facts);
    } else if (const auto* variable = std::get_if<Variable>(&statement.node)) {
      if (variable->space == StateSpace::kShared) facts.shared_bytes += VariableBytes(*variable);
      if (variable->space == StateSpace::kLocal) facts.local_bytes += VariableBytes(*variable);
    }
  });
}

void NoteAttributes(const Function& function, BodyFacts& facts) {
  for (const Directive& attribute : function.attributes) {
    std::string_view name = attribute.name;
    if (name.starts_with(".")) name.remove_prefix(1);
    if (name == "explicitcluster" || name == "reqnctapercluster" || name == "maxclusterrank") {
      facts.Set(Feature::kCluster);
    }
  }
}

class Analyzer {
 public:
  explicit Analyzer(const Module& module) : module_(module), calls_(module) {
    for (const auto& item : module.items) {
      if (const auto* variable = std::get_if<Variable>(&item)) {
        variables_.emplace(variable->name, variable);
        if (variable->init) AddNames(*variable->init, addresses_);
      } else if (const auto* function = std::get_if<Function>(&item)) {
        if (function->body) functions_[function->name] = function;
      }
    }
  }

  std::vector<KernelFeatures> Analyze() {
    std::vector<KernelFeatures> kernels;
    for (const auto& item : module_.items) {
      const auto* function = std::get_if<Function>(&item);
      if (function != nullptr && function->is_entry && function->body) {
        kernels.push_back(AnalyzeKernel(*function));
      }
    }
    return kernels;
  }

 private:
  const BodyFacts& FactsOf(const Function& function) {
    const auto [at, fresh] = facts_.try_emplace(&function);
    if (!fresh) return at->second;
    BodyFacts& facts = at->second;
    NoteStatements(*function.body, facts);
    NoteAttributes(function, facts);
    facts.wait = FindWait(function, BuildFlowGraph(function), calls_);
    if (!facts.wait.empty()) facts.Set(Feature::kMayWait);
    return facts;
  }

  // The kernel and all functions that it may call. Names of callees that the module lacks go to
  // `unknown`.
  std::vector<const Function*> Reachable(const Function& kernel, std::set<std::string>& unknown) {
    std::vector<const Function*> reached;
    std::unordered_set<const Function*> seen;
    std::vector<const Function*> work{&kernel};
    const auto visit = [&](std::string_view name) {
      const auto at = functions_.find(name);
      if (at != functions_.end() && !at->second->is_entry) work.push_back(at->second);
      return at != functions_.end();
    };
    bool pointers = false;
    while (!work.empty()) {
      const Function* function = work.back();
      work.pop_back();
      if (!seen.insert(function).second) continue;
      reached.push_back(function);
      const BodyFacts& facts = FactsOf(*function);
      for (const std::string_view name : facts.callees) {
        if (!visit(name)) unknown.emplace(name);
      }
      // A function that is named here but not called: its address is taken.
      for (const std::string_view name : facts.names) visit(name);
      if (facts.Has(Feature::kIndirectCall) && !pointers) {
        pointers = true;
        for (const std::string_view name : addresses_) visit(name);
      }
    }
    return reached;
  }

  bool WaitsForBlock(const Instruction& instruction) {
    if (IsFullBlockWait(instruction)) return !instruction.HasModifier("arrive");
    if (instruction.opcode != "call") return false;
    const Operand* callee = FindCallee(instruction);
    const auto at = callee == nullptr ? functions_.end() : functions_.find(callee->text);
    if (at == functions_.end()) return false;
    std::set<std::string> unknown;
    for (const Function* function : Reachable(*at->second, unknown)) {
      const BodyFacts& facts = FactsOf(*function);
      if (facts.Has(Feature::kBlockBarrier) || facts.Has(Feature::kNamedBarrier)) return true;
    }
    return false;
  }

  KernelFeatures AnalyzeKernel(const Function& kernel) {
    std::set<std::string> unknown, barriers, variables;
    BodyFacts sum;
    std::unordered_set<std::string_view> names;
    for (const Function* function : Reachable(kernel, unknown)) {
      const BodyFacts& facts = FactsOf(*function);
      for (size_t i = 0; i < facts.has.size(); ++i) sum.has[i] = sum.has[i] || facts.has[i];
      sum.shared_bytes += facts.shared_bytes;
      sum.local_bytes += facts.local_bytes;
      if (sum.wait.empty()) sum.wait = facts.wait;
      barriers.insert(facts.barriers.begin(), facts.barriers.end());
      names.insert(facts.names.begin(), facts.names.end());
    }
    AddVariables(names, sum, variables);
    if (!unknown.empty()) sum.Set(Feature::kUnknownCall);
    if (sum.shared_bytes != 0) sum.Set(Feature::kStaticShared);
    if (sum.local_bytes != 0) sum.Set(Feature::kLocalMemory);
    if (sum.Has(Feature::kBlockBarrier) || sum.Has(Feature::kNamedBarrier)) {
      const auto waits = [this](const Instruction& each) { return WaitsForBlock(each); };
      if (HasEarlyReturn(BuildFlowGraph(kernel), waits)) sum.Set(Feature::kEarlyReturn);
    }
    std::map<Feature, std::string> details;
    details[Feature::kNamedBarrier] = Join(barriers);
    details[Feature::kMayWait] = sum.wait;
    details[Feature::kStaticShared] = std::to_string(sum.shared_bytes) + " bytes";
    details[Feature::kLocalMemory] = std::to_string(sum.local_bytes) + " bytes";
    details[Feature::kModuleVariable] = Join(variables);
    details[Feature::kUnknownCall] = Join(unknown);
    KernelFeatures features{.kernel = kernel.name, .notes = {}};
    for (int i = 0; i < kFeatureCount; ++i) {
      const auto feature = static_cast<Feature>(i);
      if (sum.Has(feature)) features.notes.push_back({feature, details[feature]});
    }
    return features;
  }

  void AddVariables(const std::unordered_set<std::string_view>& names, BodyFacts& sum,
                    std::set<std::string>& variables) const {
    for (const std::string_view name : names) {
      const auto at = variables_.find(name);
      if (at == variables_.end()) continue;
      const Variable& variable = *at->second;
      if (IsDynamicShared(variable)) {
        sum.Set(Feature::kDynamicShared);
      } else if (variable.space == StateSpace::kShared) {
        sum.shared_bytes += VariableBytes(variable);
      } else if (variable.space == StateSpace::kGlobal || variable.space == StateSpace::kConst) {
        // String literals and tables that the compiler made are the same in every copy of the
        // module.
        if (name.starts_with("$") || name.starts_with("__unnamed_")) continue;
        sum.Set(Feature::kModuleVariable);
        variables.emplace(name);
      }
    }
  }

  static std::string Join(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  const Module& module_;
  CallEffects calls_;
  std::unordered_map<std::string_view, const Variable*> variables_;
  std::unordered_map<std::string_view, const Function*> functions_;
  std::unordered_set<std::string_view> addresses_;
  std::unordered_map<const Function*, BodyFacts> facts_;
};

}  // namespace

const char* ToString(Feature feature) { return kWords[static_cast<size_t>(feature)]; }

std::vector<KernelFeatures> AnalyzeKernels(const Module& module) {
  return Analyzer(module).Analyze();
}

}  // namespace cupola::ptx
