#include "device/compiler/passes/variables.h"

#include <algorithm>
#include <array>

#include "device/compiler/passes/rewrite.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::passes {
namespace {

bool HasAddresses(const ptx::Initializer& init) {
  if (init.kind == ptx::Initializer::Kind::kAddress ||
      init.kind == ptx::Initializer::Kind::kMaskedAddress) {
    return true;
  }
  return std::any_of(init.elements.begin(), init.elements.end(), HasAddresses);
}

// String literals ($str, __unnamed_1), promoted local arrays (__const_$_...), tables of
// mathematical functions (__cudart_i2opi_f): nobody can name them, so nobody changes them.
bool IsCompilerMade(const ptx::Variable& variable) {
  const std::string_view name = variable.name;
  const bool by_name = name.starts_with("$") || name.starts_with("__unnamed_") ||
                       name.starts_with("__const_") || name.starts_with("__cudart_");
  return by_name && variable.linking.empty() && variable.init && !HasAddresses(*variable.init);
}

// Rewrites an instruction on constant space: the constants of a side module lie in global memory.
bool MoveToGlobal(ptx::Instruction& instruction) {
  if (!instruction.HasModifier("const")) return false;
  if (instruction.opcode == "cvta") {
    instruction.opcode = "mov";
    instruction.modifiers = {instruction.modifiers.back()};
  } else {
    ReplaceModifier(instruction, "const", "global");
  }
  return true;
}

}  // namespace

VariableTable::VariableTable(const ptx::Module& module) {
  for (const auto& item : module.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item);
    if (variable == nullptr) continue;
    if (variable->space != ptx::StateSpace::kGlobal && variable->space != ptx::StateSpace::kConst) {
      continue;
    }
    if (IsCompilerMade(*variable)) {
      copied_[variable->name] = variable;
    } else if (VariableBytes(*variable) != 0 || variable->linking == "extern") {
      Entry& entry = of_program_[variable->name];
      if (entry.variable == nullptr) order_.push_back(variable->name);
      if (entry.variable == nullptr || variable->linking != "extern") entry.variable = variable;
    }
  }
}

void VariableTable::Use(std::string_view name) {
  const auto at = of_program_.find(name);
  if (at != of_program_.end()) at->second.used = true;
}

std::vector<const ptx::Variable*> VariableTable::Number() {
  std::vector<const ptx::Variable*> variables;
  for (const std::string_view name : order_) {
    Entry& entry = of_program_.find(name)->second;
    if (!entry.used) continue;
    entry.number = static_cast<uint32_t>(variables.size());
    variables.push_back(entry.variable);
  }
  return variables;
}

std::vector<VariableFact> VariableFacts(const std::vector<const ptx::Variable*>& variables) {
  const auto is_managed = [](const std::string& word) {
    return word.find("managed") != std::string::npos;
  };
  std::vector<VariableFact> facts;
  for (const ptx::Variable* variable : variables) {
    const auto& words = variable->qualifiers;
    facts.push_back({.name = variable->name,
                     .bytes = VariableBytes(*variable),
                     .is_managed = std::any_of(words.begin(), words.end(), is_managed),
                     .is_constant = variable->space == ptx::StateSpace::kConst});
  }
  return facts;
}

bool ReachVariablesByAddress(ptx::Function& function, const VariableTable& table) {
  constexpr uint32_t kRegisters = 4;  // an instruction names few variables
  bool any = false;
  const bool moved = RewriteInstructions(
      *function.body, [&](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
        uint32_t next = 0;
        ForEachOperandOf(instruction, [&](ptx::Operand& operand) {
          if (operand.text.empty() || !table.IsOfProgram(operand.text)) return;
          const std::string name = "%cupola_v" + std::to_string(next++ % kRegisters);
          const uint32_t at = 8 * table.NumberOf(operand.text);
          Append(out, "ld.const.u64 <name>, [cupola_variables+<at>];",
                 {{"name", name}, {"at", std::to_string(at)}});
          if (operand.kind == ptx::Operand::Kind::kOffset) {
            Append(out, "add.s64 <name>, <name>, <offset>;",
                   {{"name", name}, {"offset", std::to_string(operand.integer)}});
          }
          operand = ptx::Operand::Name(name);
        });
        const bool space = MoveToGlobal(instruction);
        out.push_back({.node = std::move(instruction)});
        any = any || next != 0;
        return space || next != 0;
      });
  if (!any) return moved;
  auto& statements = function.body->statements;
  for (uint32_t i = 0; i < kRegisters; ++i) {
    statements.insert(statements.begin(), Register("b64", "%cupola_v" + std::to_string(i)));
  }
  return true;
}

ptx::Variable AddressArray(size_t count) {
  ptx::Variable variable;
  variable.linking = "visible";
  variable.space = ptx::StateSpace::kConst;
  variable.align = 8;
  variable.type = "b64";
  variable.name = kVariablesName;
  variable.dims = {count};
  return variable;
}

ptx::Variable CopyOf(const ptx::Variable& variable) {
  ptx::Variable copy = variable;
  copy.space = ptx::StateSpace::kGlobal;
  return copy;
}

}  // namespace cupola::passes
