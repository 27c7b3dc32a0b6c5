#include "device/compiler/build/fusion.h"

#include <set>
#include <string>
#include <vector>

#include "device/compiler/ptx/walk.h"

namespace cupola::build {
namespace {

using ptx::Instruction;
using ptx::Operand;

bool IsRounding(std::string_view word) {
  return word == "rn" || word == "rz" || word == "rm" || word == "rp" || word == "rna";
}

bool IsFloat(std::string_view word) {
  return word.starts_with("f16") || word.starts_with("bf16") || word == "f32" || word == "f64" ||
         word == "f32x2";
}

bool IsUnrounded(const Instruction& instruction) {
  bool is_float = false;
  for (const std::string& modifier : instruction.modifiers) {
    if (IsRounding(modifier)) return false;
    is_float = is_float || IsFloat(modifier);
  }
  return is_float;
}

// What the bodies of a kernel and of all functions that it may call contain.
struct Survey {
  std::vector<const Instruction*> instructions;
  std::set<std::string> functions;  // functions that the bodies name
};

void AddNames(const Operand& operand, std::set<std::string>& names) {
  ptx::ForEachOperand(operand, [&](const Operand& each) {
    if (each.kind == Operand::Kind::kName || each.kind == Operand::Kind::kIndexed) names.insert(each.text);
  });
}

void SurveyBody(const ptx::Block& body, Survey& survey) {
  ptx::ForEachInstruction(body, [&](const Instruction& instruction) {
    survey.instructions.push_back(&instruction);
    if (instruction.opcode != "call" && instruction.opcode != "mov") return;
    for (const Operand& operand : instruction.operands) AddNames(operand, survey.functions);
  });
}

// Looks at registers by name, whatever their function: two registers with the same name count as
// one.
bool Fuses(const std::vector<const Instruction*>& instructions) {
  std::set<std::string> products;  // registers that may hold an unrounded product
  const auto uses_product = [&](const Instruction& at) {
    std::set<std::string> names;
    for (size_t i = 1; i < at.operands.size(); ++i) AddNames(at.operands[i], names);
    for (const std::string& name : names) {
      if (products.contains(name)) return true;
    }
    return false;
  };
  for (const Instruction* at : instructions) {
    if (at->opcode == "mul" && IsUnrounded(*at) && !at->operands.empty()) {
      AddNames(at->operands[0], products);
    }
  }
  if (products.empty()) return false;
  // These instructions pass values on. The loop ends when nothing is added, since the code's loops
  // run backwards.
  for (size_t before = 0; before != products.size();) {
    before = products.size();
    for (const Instruction* at : instructions) {
      const bool moves = at->opcode == "mov" || at->opcode == "selp" || at->opcode == "neg" ||
                         at->opcode == "abs" || at->opcode == "slct" || at->opcode == "copysign";
      if (moves && !at->operands.empty() && uses_product(*at)) AddNames(at->operands[0], products);
    }
  }
  // A value that is stored may be loaded, and a value that is passed to a function may be added
  // there.
  bool anywhere = false;
  for (const Instruction* at : instructions) {
    anywhere = anywhere || at->opcode == "call" ||
               (at->opcode == "st" && uses_product(*at) && !at->HasModifier("global"));
  }
  for (const Instruction* at : instructions) {
    const bool adds = at->opcode == "add" || at->opcode == "sub";
    if (adds && IsUnrounded(*at) && (anywhere || uses_product(*at))) return true;
  }
  return false;
}

bool PinBlock(ptx::Block& block) {
  bool pins = false;
  for (ptx::Statement& statement : block.statements) {
    if (auto* inner = std::get_if<ptx::Block>(&statement.node)) pins = PinBlock(*inner) || pins;
    auto* at = std::get_if<Instruction>(&statement.node);
    if (at == nullptr || !IsUnrounded(*at)) continue;
    if (at->opcode != "mul" && at->opcode != "add" && at->opcode != "sub") continue;
    at->modifiers.insert(at->modifiers.begin(), "rn");  // before .ftz, .sat and the type
    pins = true;
  }
  return pins;
}

}  // namespace

bool PinRounding(ptx::Function& function) { return function.body && PinBlock(*function.body); }

bool MayBeFused(const ptx::Module& module, std::string_view kernel) {
  Survey survey;
  std::set<std::string> seen, open = {std::string(kernel)};
  while (!open.empty()) {
    const std::string name = open.extract(open.begin()).value();
    if (!seen.insert(name).second) continue;
    const ptx::Function* function = module.FindFunction(name);
    if (function == nullptr || !function->body) continue;
    SurveyBody(*function->body, survey);
    for (const std::string& named : survey.functions) {
      if (module.FindFunction(named) != nullptr) open.insert(named);
    }
  }
  return Fuses(survey.instructions);
}

}  // namespace cupola::build
