#include "device/sim/driver/link_units.h"

#include <map>
#include <set>

#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"

namespace cupola::sim {
namespace {

bool IsDefinition(const ptx::Variable& variable) { return variable.linking != "extern"; }
bool IsDefinition(const ptx::Function& function) { return function.body.has_value(); }

/// Where the definition of each name stands, over all units.
class Linker {
 public:
  Result<void> Collect(const std::vector<ptx::Module>& units) {
    for (size_t unit = 0; unit < units.size(); ++unit) {
      for (const auto& item : units[unit].items) {
        if (auto* variable = std::get_if<ptx::Variable>(&item)) {
          if (Status status = CollectOne(*variable, unit); !status) return status;
        } else if (auto* function = std::get_if<ptx::Function>(&item)) {
          if (Status status = CollectOne(*function, unit); !status) return status;
        }
      }
    }
    return {};
  }

  /// Whether the item of that unit goes into the result. A declaration goes once, and only where
  /// it is needed: for functions, or where nothing defines the variable.
  bool Keeps(const ptx::Variable& variable, size_t unit) {
    auto definition = unit_of_.find(variable.name);
    if (definition == unit_of_.end()) return declared_.insert(variable.name).second;
    return IsDefinition(variable) && definition->second == unit;
  }
  bool Keeps(const ptx::Function& function, size_t unit) {
    if (!IsDefinition(function)) return declared_.insert(function.name).second;
    return unit_of_[function.name] == unit;
  }
  /// The linking word of a function's definition, else that of the declaration.
  std::string LinkingOf(const ptx::Function& function) const {
    auto it = function_linking_.find(function.name);
    return it == function_linking_.end() ? function.linking : it->second;
  }

 private:
  template <typename Item>
  Status CollectOne(const Item& item, size_t unit) {
    if (!IsDefinition(item)) return {};
    auto [place, is_new] = unit_of_.emplace(item.name, unit);
    const bool may_repeat = item.linking == "weak" || item.linking == "common";
    if (!is_new && place->second != unit && !may_repeat) {
      return MakeError(ErrorCode::kDamaged, "linking -rdc units: '" + item.name +
                                                "' is defined in two of them");
    }
    if constexpr (std::is_same_v<Item, ptx::Function>) {
      function_linking_.emplace(item.name, item.linking);
    }
    return {};
  }

  std::map<std::string, size_t> unit_of_;
  std::map<std::string, std::string> function_linking_;
  std::set<std::string> declared_;
};

}  // namespace

Result<std::string> LinkUnits(const std::vector<std::string>& units) {
  if (units.size() == 1) return units.front();
  std::vector<ptx::Module> modules;
  for (size_t i = 0; i < units.size(); ++i) {
    Result<ptx::Module> module = ptx::Parse(units[i], "unit " + std::to_string(i + 1));
    if (!module) return module.error();
    modules.push_back(std::move(*module));
  }
  if (modules.empty()) return MakeError(ErrorCode::kDamaged, "the -rdc program has no units");

  Linker linker;
  if (Status status = linker.Collect(modules); !status) return status.error();
  ptx::Module linked = modules.front();
  linked.items.clear();
  // Variables first: a name must be known before it is used [PTX ISA 4.3.1].
  for (size_t unit = 0; unit < modules.size(); ++unit) {
    for (auto& item : modules[unit].items) {
      auto* variable = std::get_if<ptx::Variable>(&item);
      if (variable != nullptr && linker.Keeps(*variable, unit)) linked.items.push_back(*variable);
    }
  }
  for (const bool wants_definitions : {false, true}) {
    for (size_t unit = 0; unit < modules.size(); ++unit) {
      for (auto& item : modules[unit].items) {
        auto* function = std::get_if<ptx::Function>(&item);
        if (function == nullptr || IsDefinition(*function) != wants_definitions) continue;
        if (!linker.Keeps(*function, unit)) continue;
        function->linking = linker.LinkingOf(*function);
        linked.items.push_back(*function);
      }
    }
  }
  for (const ptx::Module& module : modules) {
    const auto own = std::pair(module.version_major, module.version_minor);
    if (own <= std::pair(linked.version_major, linked.version_minor)) continue;
    linked.version_major = module.version_major;
    linked.version_minor = module.version_minor;
  }
  return ptx::Write(linked);
}

}  // namespace cupola::sim
