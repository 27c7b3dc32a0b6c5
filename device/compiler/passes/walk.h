// Walks and rewrites the instructions of a PTX body, including scopes in braces. Internal to the
// folder; pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Calls visit(const ptx::Statement&) for every statement in the order of the text. A block in
/// braces is visited before the statements in it.
template <typename Visit>
void ForEachStatement(const ptx::Block& block, Visit visit) {
  for (const ptx::Statement& statement : block.statements) {
    visit(statement);
    if (const auto* inner = std::get_if<ptx::Block>(&statement.node)) {
      ForEachStatement(*inner, visit);
    }
  }
}

/// Calls visit(const ptx::Instruction&) for every instruction, also in blocks in braces, in the order of the text.
template <typename Visit>
void ForEachInstruction(const ptx::Block& block, Visit visit) {
  ForEachStatement(block, [&](const ptx::Statement& statement) {
    if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      visit(*instruction);
    }
  });
}

/// Calls visit(ptx::Operand&) for the operand and all it holds.
template <typename AnyOperand, typename Visit>
void ForEachOperand(AnyOperand& operand, Visit visit) {
  visit(operand);
  for (auto& child : operand.children) ForEachOperand(child, visit);
}

/// ForEachOperand for all operands of an instruction.
template <typename AnyInstruction, typename Visit>
void ForEachOperandOf(AnyInstruction& instruction, Visit visit) {
  for (auto& operand : instruction.operands) ForEachOperand(operand, visit);
}

/// Replaces each modifier `from` (without its dot) of the instruction by `to`.
inline void ReplaceModifier(ptx::Instruction& instruction, std::string_view from,
                            std::string_view to) {
  for (std::string& modifier : instruction.modifiers) {
    if (modifier == from) modifier = to;
  }
}

/// Calls rewrite(ptx::Instruction, std::vector<ptx::Statement>& out) for each instruction and
/// replaces it by the statements that `rewrite` appends to `out`. Returns whether any call of
/// `rewrite` returned true, which means that something changed.
template <typename Rewrite>
bool RewriteInstructions(ptx::Block& block, Rewrite rewrite) {
  bool changed = false;
  std::vector<ptx::Statement> out;
  out.reserve(block.statements.size());
  for (ptx::Statement& statement : block.statements) {
    if (auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      changed = rewrite(std::move(*instruction), out) || changed;
      continue;
    }
    if (auto* inner = std::get_if<ptx::Block>(&statement.node)) {
      changed = RewriteInstructions(*inner, rewrite) || changed;
    }
    out.push_back(std::move(statement));
  }
  block.statements = std::move(out);
  return changed;
}

}  // namespace cupola::passes
