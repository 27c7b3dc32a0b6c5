#include "device/compiler/build/code.h"

#include <utility>

namespace cupola::build {

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
