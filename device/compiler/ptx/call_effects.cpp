#include "device/compiler/ptx/call_effects.h"

#include <algorithm>

#include "device/compiler/ptx/walk.h"

namespace cupola::ptx {
namespace {

// CUDA functions whose bodies are not in the module, and which read nothing for which a loop could
// wait.
bool IsHarmless(std::string_view name) {
  return name == "vprintf" || name == "__assertfail" || name == "malloc" || name == "free" ||
         name.starts_with("__threadfence") || name.starts_with("__nanosleep");
}

// Collects the names that are used other than to be called.
void NoteUses(const Block& block, std::unordered_set<std::string_view>& names) {
  ForEachInstruction(block, [&](const Instruction& each) {
    const Operand* callee = each.opcode == "call" ? FindCallee(each) : nullptr;
    ForEachOperandOf(each, [&](const Operand& operand) {
      const bool is_used = &operand != callee && !operand.text.empty() && operand.text[0] != '%';
      if (is_used) names.insert(operand.text);
    });
  });
}

bool IsType(std::string_view modifier) {
  const size_t digits = modifier.find_first_of("0123456789");
  return digits == 1 || (modifier.starts_with("bf16") || modifier == "pred");
}

bool IsStrongRead(const Instruction& each) {
  const bool is_shared =
      std::any_of(each.modifiers.begin(), each.modifiers.end(),
                  [](const std::string& own) { return own.starts_with("shared"); });
  if (is_shared || each.operands.empty()) return false;
  if (each.opcode == "atom") return true;
  if (each.opcode == "multimem") return each.HasModifier("ld_reduce");
  if (each.opcode != "ld") return false;
  return each.HasModifier("volatile") || each.HasModifier("acquire") ||
         each.HasModifier("relaxed") || each.HasModifier("mmio") || each.HasModifier("cv");
}

}  // namespace

std::string NameOfRead(const Instruction& instruction) {
  std::string name = instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) {
    if (!IsType(modifier)) name += "." + modifier;
  }
  return name;
}

CallEffects::CallEffects(const Module& module) {
  for (const auto& item : module.items) {
    if (const auto* variable = std::get_if<Variable>(&item)) {
      variables_.emplace(variable->name, variable);
      if (variable->init) AddNames(*variable->init, address_taken_);
    } else if (const auto* function = std::get_if<Function>(&item)) {
      if (!function->body) continue;
      functions_[function->name] = function;
      NoteUses(*function->body, address_taken_);
    }
  }
}

const Function* CallEffects::FindFunction(std::string_view name) const {
  const auto at = functions_.find(name);
  return at == functions_.end() ? nullptr : at->second;
}

std::vector<const Instruction*> CallEffects::FindStrongReads(const Function& function) const {
  if (!function.body) return {};
  std::vector<const Instruction*> strong;
  std::unordered_map<std::string_view, int> counts;
  ForEachInstruction(*function.body, [&](const Instruction& each) {
    if (IsStrongRead(each)) strong.push_back(&each);
    ForEachOperandOf(each, [&](const Operand& operand) {
      if (!operand.text.empty()) ++counts[operand.text];
    });
    if (each.guard) ++counts[each.guard->predicate];
  });
  // An atomic whose result is named nowhere else does not count as a read.
  std::erase_if(strong, [&](const Instruction* each) {
    const std::string& result = each->operands[0].text;
    return each->opcode == "atom" && !result.empty() && counts[result] <= 1;
  });
  return strong;
}

const DataFlow& CallEffects::FlowOf(const Function& function) {
  {
    const Entry& known = entries_[&function];
    if (known.flow != nullptr) return *known.flow;
  }
  auto flow = std::make_unique<DataFlow>(AnalyzeDataFlow(
      function, [this](const Instruction& call) { return EffectOf(call); },
      [this](std::string_view name) -> const Variable* {
        const auto at = variables_.find(name);
        return at == variables_.end() ? nullptr : at->second;
      }));
  Entry& entry = entries_[&function];
  if (entry.flow == nullptr) entry.flow = std::move(flow);
  return *entry.flow;
}

const CallEffect* CallEffects::EffectOf(const Instruction& call) {
  static const CallEffect kNothing;
  const Operand* callee = FindCallee(call);
  if (callee == nullptr || callee->text.empty()) return nullptr;
  if (callee->text[0] == '%') return EffectOfPointers();
  if (IsHarmless(callee->text)) return &kNothing;
  const Function* function = FindFunction(callee->text);
  if (function == nullptr) return nullptr;
  Entry& entry = entries_[function];
  if (entry.is_under_way) {
    for (auto& [other, each] : entries_) each.effect.is_recursive |= each.is_under_way;
    return nullptr;
  }
  return &EffectOf(*function);
}

const CallEffect& CallEffects::EffectOf(const Function& function) {
  Entry& known = entries_[&function];
  if (known.is_known) return known.effect;
  known.is_under_way = true;
  const DataFlow& flow = FlowOf(function);
  Entry& entry = entries_[&function];
  AddSteps(flow, entry.effect);
  const std::vector<const Instruction*> strong = FindStrongReads(function);
  if (!strong.empty()) entry.effect.strong = NameOfRead(*strong.front());
  entry.is_under_way = false;
  entry.is_known = true;
  return entry.effect;
}

// What a call through a pointer may do: it may go to any function whose address is taken.
const CallEffect* CallEffects::EffectOfPointers() {
  if (pointers_are_known_) return &of_pointers_;
  pointers_are_known_ = true;
  of_pointers_ = {.reads = true,
                  .reads_by = ~uint64_t{0},
                  .writes = true,
                  .writes_by = ~uint64_t{0},
                  .advances = false,
                  .strong = "",
                  .is_recursive = false};
  for (const std::string_view name : address_taken_) {
    const Function* function = FindFunction(name);
    if (function == nullptr || function->is_entry) continue;
    const std::vector<const Instruction*> strong = FindStrongReads(*function);
    if (!strong.empty()) of_pointers_.strong = NameOfRead(*strong.front());
  }
  return &of_pointers_;
}

void CallEffects::AddSteps(const DataFlow& flow, CallEffect& effect) {
  const auto add = [&flow](const Address& address, bool& any, uint64_t& by) {
    if (address.roots.empty()) any = true;
    for (const uint32_t root : address.roots) {
      const MemoryRoot& each = flow.roots[root];
      if (each.kind == MemoryRoot::Kind::kOwn) continue;
      if (each.kind == MemoryRoot::Kind::kParameter && each.number < kMaskedParameters) {
        by |= uint64_t{1} << each.number;
      } else {
        any = true;
      }
    }
  };
  for (const Instruction* instruction : flow.order) {
    const auto steps = flow.steps.find(instruction);
    if (steps == flow.steps.end()) continue;
    for (const Step& step : steps->second) {
      const std::string& opcode = instruction->opcode;
      if (opcode == "call") {
        AddCall(step, flow, effect);
        continue;
      }
      if (step.reads_others || step.reads_given) add(step.address, effect.reads, effect.reads_by);
      if (step.writes || step.writes_given) add(step.address, effect.writes, effect.writes_by);
      effect.advances |= step.effect == Effect::kAdvances && !step.sets.empty() && opcode != "ld";
    }
  }
}

void CallEffects::AddCall(const Step& step, const DataFlow& flow, CallEffect& effect) {
  if (step.arguments.empty() && !step.reads_others && !step.writes) return;
  const CallEffect* called = EffectOf(*step.instruction);
  if (called == nullptr) {
    effect.reads = effect.writes = true;
  } else {
    effect.reads |= called->reads;
    effect.writes |= called->writes;
    effect.advances |= called->advances;
    if (effect.strong.empty()) effect.strong = called->strong;
  }
  const uint64_t reads = called == nullptr ? ~uint64_t{0} : called->reads_by;
  const uint64_t writes = called == nullptr ? ~uint64_t{0} : called->writes_by;
  for (size_t i = 0; i < step.arguments.size() && i < kMaskedParameters; ++i) {
    for (const uint32_t root : step.arguments[i].roots) {
      const MemoryRoot& each = flow.roots[root];
      if (each.kind == MemoryRoot::Kind::kOwn) continue;
      const bool is_parameter =
          each.kind == MemoryRoot::Kind::kParameter && each.number < kMaskedParameters;
      const uint64_t bit = is_parameter ? uint64_t{1} << each.number : 0;
      if ((reads >> i & 1) != 0) {
        effect.reads |= !is_parameter;
        effect.reads_by |= bit;
      }
      if ((writes >> i & 1) != 0) {
        effect.writes |= !is_parameter;
        effect.writes_by |= bit;
      }
    }
    // A pointer whose target is not known may point to memory that others write.
    if (step.arguments[i].roots.empty()) {
      effect.reads |= (reads >> i & 1) != 0;
      effect.writes |= (writes >> i & 1) != 0;
    }
  }
}

}  // namespace cupola::ptx
