// Rewrites the instructions of a PTX body, including scopes in braces. device/compiler/ptx/walk.h walks them. Internal to
// the folder; pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

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
