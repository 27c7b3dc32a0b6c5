#include "device/compiler/ptx/variable_layout.h"

#include <algorithm>

#include "device/compiler/ptx/target.h"

namespace cupola::ptx {

uint64_t VariableBytes(const Variable& variable) {
  uint64_t bytes = TypeBytes(variable.type) * variable.vector;
  for (const uint64_t dim : variable.dims) {
    bytes *= dim == 0 && variable.init ? variable.init->elements.size() : dim;
  }
  return bytes;
}

uint32_t VariableAlign(const Variable& variable) {
  if (variable.align != 0) return variable.align;
  return static_cast<uint32_t>(std::max<uint64_t>(TypeBytes(variable.type) * variable.vector, 1));
}

ParameterLayout LayOutParameters(const Function& kernel, uint32_t base) {
  ParameterLayout layout;
  uint32_t end = base;
  for (const Variable& parameter : kernel.params) {
    const uint32_t align = VariableAlign(parameter);
    const auto bytes = static_cast<uint32_t>(VariableBytes(parameter));
    end = (end + align - 1) / align * align;
    layout.parameters.push_back({end - base, bytes, align});
    end += bytes;
  }
  layout.bytes = end - base;
  return layout;
}

}  // namespace cupola::ptx
