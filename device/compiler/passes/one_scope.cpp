#include "device/compiler/passes/one_scope.h"

#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/compiler/ptx/walk.h"

namespace cupola::passes {
namespace {

bool Holds(const ptx::Block& block, IsWanted is_wanted) {
  bool holds = false;
  ForEachInstruction(block, [&](const auto& each) { holds = holds || is_wanted(each); });
  return holds;
}

/// The names that a scope declares, and the new names that replace them.
class Renaming {
 public:
  Renaming(const ptx::Block& block, uint32_t number)
      : prefix_("cupola_s" + std::to_string(number) + "_") {
    for (const ptx::Statement& statement : block.statements) {
      if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
        (variable->has_range ? ranges_ : names_).emplace(variable->name, NewName(variable->name));
        for (uint32_t i = 0; variable->has_range && i < variable->range; ++i) {
          names_.emplace(variable->name + std::to_string(i), NewName(variable->name) + std::to_string(i));
        }
      } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
        names_.emplace(label->name, NewName(label->name));
      } else if (const auto* list = std::get_if<ptx::TargetList>(&statement.node)) {
        names_.emplace(list->label, NewName(list->label));
      } else if (const auto* prototype = std::get_if<ptx::CallPrototype>(&statement.node)) {
        names_.emplace(prototype->label, NewName(prototype->label));
      }
    }
  }

  void Apply(ptx::Block& block) const {
    for (ptx::Statement& statement : block.statements) {
      if (auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
        if (instruction->guard) Rename(instruction->guard->predicate);
        ForEachOperandOf(*instruction, [this](ptx::Operand& operand) { Rename(operand.text); });
      } else if (auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
        Rename(variable->name, variable->has_range);
      } else if (auto* label = std::get_if<ptx::Label>(&statement.node)) {
        Rename(label->name);
      } else if (auto* list = std::get_if<ptx::TargetList>(&statement.node)) {
        Rename(list->label);
        for (std::string& target : list->targets) Rename(target);
      } else if (auto* prototype = std::get_if<ptx::CallPrototype>(&statement.node)) {
        Rename(prototype->label);
      } else if (auto* inner = std::get_if<ptx::Block>(&statement.node)) {
        Apply(*inner);
      }
    }
  }

 private:
  using Names = std::unordered_map<std::string, std::string>;

  std::string NewName(const std::string& name) const {
    const size_t sign = name.empty() || (name[0] != '%' && name[0] != '$') ? 0 : 1;
    const char first = sign == 0 ? '$' : name[0];
    return first + prefix_ + name.substr(sign);
  }

  // Renames a name, an element of a vector ("%v.x"), or a name of a range ("%r7" of %r<9>).
  void Rename(std::string& name, bool is_range = false) const {
    const Names& whole = is_range ? ranges_ : names_;
    if (const auto at = whole.find(name); at != whole.end()) {
      name = at->second;
      return;
    }
    if (is_range || name.empty()) return;
    const size_t dot = name.find('.');
    const std::string stem = name.substr(0, dot), rest = dot == name.npos ? "" : name.substr(dot);
    if (const auto at = names_.find(stem); at != names_.end()) name = at->second + rest;
  }

  std::string prefix_;
  Names names_, ranges_;
};

void Dissolve(ptx::Block& body, IsWanted is_wanted, uint32_t& count) {
  std::vector<ptx::Statement> out;
  for (ptx::Statement& statement : body.statements) {
    auto* inner = std::get_if<ptx::Block>(&statement.node);
    if (inner == nullptr || !Holds(*inner, is_wanted)) {
      out.push_back(std::move(statement));
      continue;
    }
    Renaming(*inner, ++count).Apply(*inner);
    Dissolve(*inner, is_wanted, count);
    std::move(inner->statements.begin(), inner->statements.end(), std::back_inserter(out));
  }
  body.statements = std::move(out);
}

}  // namespace

void Dissolve(ptx::Block& body, IsWanted is_wanted) {
  uint32_t count = 0;
  Dissolve(body, is_wanted, count);
}

}  // namespace cupola::passes
