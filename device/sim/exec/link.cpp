#include "device/sim/exec/link.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace cupola::sim {
namespace {

using Renames = std::unordered_map<std::string, std::string>;

void Rename(const Renames& names, std::string* text) {
  if (const auto it = names.find(*text); it != names.end()) *text = it->second;
}

void Rename(const Renames& names, ptx::Operand* operand) {
  Rename(names, &operand->text);
  for (ptx::Operand& child : operand->children) Rename(names, &child);
}

void Rename(const Renames& names, ptx::Initializer* init) {
  Rename(names, &init->text);
  for (ptx::Initializer& element : init->elements) Rename(names, &element);
}

void Rename(const Renames& names, ptx::Block* block) {
  for (ptx::Statement& statement : block->statements) {
    if (auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      for (ptx::Operand& operand : instruction->operands) Rename(names, &operand);
    } else if (auto* inner = std::get_if<ptx::Block>(&statement.node)) {
      Rename(names, inner);
    }
  }
}

/// The names that earlier units have defined.
struct Defined {
  std::unordered_map<std::string, std::string> linking;  ///< visible name -> linkage
  std::unordered_set<std::string> local;                 ///< names without linkage
};

bool IsLocal(const std::string& linking) { return linking.empty() || linking == "static"; }

template <typename Item>
bool Defines(const Item& item) {
  if constexpr (std::is_same_v<Item, ptx::Function>) {
    return item.body.has_value();
  } else {
    return item.linking != "extern";
  }
}

/// New names for those of the unit's local definitions whose names an earlier unit also uses.
Renames ClashesOf(const ptx::Module& module, size_t unit, Defined* defined) {
  Renames renames;
  for (const auto& item : module.items) {
    std::visit(
        [&](const auto& node) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(node)>, ptx::Directive>) {
            if (!IsLocal(node.linking) || !Defines(node)) return;
            if (defined->local.insert(node.name).second && defined->linking.count(node.name) == 0)
              return;
            renames[node.name] = fmt::format("{}${}", node.name, unit);
          }
        },
        item);
  }
  return renames;
}

void Apply(const Renames& renames, ptx::Module* module) {
  if (renames.empty()) return;
  for (auto& item : module->items) {
    if (auto* variable = std::get_if<ptx::Variable>(&item)) {
      Rename(renames, &variable->name);
      if (variable->init) Rename(renames, &*variable->init);
    } else if (auto* function = std::get_if<ptx::Function>(&item)) {
      Rename(renames, &function->name);
      if (function->body) Rename(renames, &*function->body);
    }
  }
}

/// Whether the item becomes part of the whole: false for a second weak definition. Errors: kDamaged
/// for a name that is defined twice.
template <typename Item>
Result<bool> Admit(const Item& item, const std::string& unit, Defined* defined) {
  if (!Defines(item) || IsLocal(item.linking)) return true;
  const auto [it, fresh] = defined->linking.try_emplace(item.name, item.linking);
  if (fresh) return true;
  if (item.linking == "weak" || item.linking == "common") return false;
  return MakeError(ErrorCode::kDamaged, fmt::format("\"{}\" is defined by two units", item.name),
                   {unit, item.pos.line, item.pos.column, {}});
}

}  // namespace

Result<ptx::Module> LinkModules(std::vector<ptx::Module> modules) {
  if (modules.empty()) return MakeError(ErrorCode::kInvalidArgument, "no module to link");
  Defined defined;
  ptx::Module whole = modules[0];
  whole.items.clear();
  for (size_t unit = 0; unit < modules.size(); ++unit) {
    ptx::Module& module = modules[unit];
    Apply(ClashesOf(module, unit, &defined), &module);
    for (auto& item : module.items) {
      Result<bool> wanted = std::visit(
          [&](const auto& node) -> Result<bool> {
            if constexpr (std::is_same_v<std::decay_t<decltype(node)>, ptx::Directive>) {
              return true;
            } else {
              return Admit(node, module.name, &defined);
            }
          },
          item);
      if (!wanted) return wanted.error();
      if (*wanted) whole.items.push_back(std::move(item));
    }
  }
  return whole;
}

}  // namespace cupola::sim
