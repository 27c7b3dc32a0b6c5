#include "device/compiler/build/code.h"

#include <utility>

namespace cupola::build {

std::string CalleeDifference(const Code& original, const Code& variants) {
  for (const auto& [name, function] : variants.functions) {
    if (variants.kernels.contains(name)) continue;
    const auto at = original.functions.find(name);
    if (at == original.functions.end()) {
      if (function.floats.empty()) continue;
      return "called function " + name + " has no counterpart in the original's code";
    }
    const std::string difference = FloatDifference(at->second.floats, function.floats);
    if (!difference.empty()) return "in called function " + name + ": " + difference;
  }
  return {};
}

Result<Code> ReadCode(std::vector<uint8_t> bytes) {
  Code code;
  Result<fatbin::Cubin> cubin = fatbin::ReadCubin(bytes);
  if (!cubin) return cubin.error();
  Result<std::vector<SassFunction>> functions = CountFloats(bytes);
  if (!functions) return functions.error();
  for (fatbin::CubinKernel& kernel : cubin->kernels) {
    code.kernels.emplace(kernel.name, std::move(kernel));
  }
  for (SassFunction& function : *functions) {
    code.functions.emplace(function.name, std::move(function));
  }
  code.bytes = std::move(bytes);
  return code;
}

}  // namespace cupola::build
