#include "device/compiler/passes/directives.h"

#include <algorithm>
#include <string>

namespace cupola::passes {

bool IsDirective(const ptx::Directive& directive, std::string_view name) {
  std::string_view own = directive.name;
  if (own.starts_with(".")) own.remove_prefix(1);
  return own == name;
}

uint32_t MaxThreads(const ptx::Function& kernel) {
  for (const ptx::Directive& attribute : kernel.attributes) {
    if (!IsDirective(attribute, "maxntid") && !IsDirective(attribute, "reqntid")) continue;
    uint64_t product = 1, value = 0;
    bool digits = false;
    for (const char c : attribute.text + ",") {
      if (c >= '0' && c <= '9') {
        value = value * 10 + static_cast<uint64_t>(c - '0');
        digits = true;
      } else if (digits) {
        product *= value;
        value = 0;
        digits = false;
      }
    }
    return static_cast<uint32_t>(std::min<uint64_t>(product, 1024));
  }
  return 0;
}

void DropLines(ptx::Block& block) {
  std::erase_if(block.statements, [](const ptx::Statement& statement) {
    const auto* directive = std::get_if<ptx::Directive>(&statement.node);
    return directive != nullptr &&
           (IsDirective(*directive, "loc") || IsDirective(*directive, "file"));
  });
  for (ptx::Statement& statement : block.statements) {
    if (auto* inner = std::get_if<ptx::Block>(&statement.node)) DropLines(*inner);
  }
}

}  // namespace cupola::passes
