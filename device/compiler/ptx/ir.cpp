#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

const Function* Module::FindFunction(std::string_view function_name) const {
  const Function* declaration = nullptr;
  for (const auto& item : items) {
    const Function* function = std::get_if<Function>(&item);
    if (function == nullptr || function->name != function_name) continue;
    if (function->body) return function;
    if (declaration == nullptr) declaration = function;
  }
  return declaration;
}

Function* Module::FindFunction(std::string_view function_name) {
  return const_cast<Function*>(static_cast<const Module*>(this)->FindFunction(function_name));
}

void AddNames(const Initializer& init, std::unordered_set<std::string_view>& names) {
  if (!init.text.empty()) names.insert(init.text);
  for (const Initializer& element : init.elements) AddNames(element, names);
}

}  // namespace cupola::ptx
