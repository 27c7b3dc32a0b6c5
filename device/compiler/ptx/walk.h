// Walks the statements of a PTX body, including scopes in braces, and the operands of an instruction, including all that
// they hold. Pure; any thread.
#pragma once

#include <variant>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Calls visit(const Statement&) for every statement in the order of the text. A block in braces is visited before the
/// statements in it.
template <typename Visit>
void ForEachStatement(const Block& block, Visit&& visit) {
  for (const Statement& statement : block.statements) {
    visit(statement);
    if (const auto* inner = std::get_if<Block>(&statement.node)) ForEachStatement(*inner, visit);
  }
}

/// Calls visit(const Instruction&) for every instruction, also in blocks in braces, in the order of the text.
template <typename Visit>
void ForEachInstruction(const Block& block, Visit&& visit) {
  ForEachStatement(block, [&](const Statement& statement) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.node)) visit(*instruction);
  });
}

/// Calls visit(operand) for the operand, which may be const or not, and then for all that it holds.
template <typename AnyOperand, typename Visit>
void ForEachOperand(AnyOperand& operand, Visit&& visit) {
  visit(operand);
  for (auto& child : operand.children) ForEachOperand(child, visit);
}

/// ForEachOperand for all operands of an instruction. Its guard is none of them.
template <typename AnyInstruction, typename Visit>
void ForEachOperandOf(AnyInstruction& instruction, Visit&& visit) {
  for (auto& operand : instruction.operands) ForEachOperand(operand, visit);
}

}  // namespace cupola::ptx
