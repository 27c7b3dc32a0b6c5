// Sizes of variables, and where a kernel's parameters lie [PTX ISA 5.1.6.1, 5.2]. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Bytes of a variable of a type with a size; 0 otherwise.
uint64_t VariableBytes(const Variable& variable);
/// Bytes to whose multiple the variable's address is aligned.
uint32_t VariableAlign(const Variable& variable);

/// Where the parameters of a kernel begin in the constant bank of an architecture (90 for sm_90), in
/// bytes. ptxas aligns a parameter by its absolute place in that bank, so that from an alignment of
/// 32 on offsets from the first parameter differ between architectures. From EIATTR_PARAM_CBANK of
/// what ptxas 13.0 makes for sm_75 to sm_121; the passes' layout is compared with each cubin
/// (build/parameter_check.h).
constexpr uint32_t ParameterBase(uint32_t arch) {
  if (arch >= 100) return 0x380;
  return arch >= 90 ? 0x210 : 0x160;
}

struct PlacedParameter {
  uint32_t offset = 0;  ///< bytes behind the begin of the parameters
  uint32_t bytes = 0, align = 0;
};

struct ParameterLayout {
  std::vector<PlacedParameter> parameters;  ///< in their order
  uint32_t bytes = 0;                       ///< from the begin of the first to the end of the last
};

/// The parameters of a kernel where the first lies no earlier than `base` (ParameterBase).
ParameterLayout LayOutParameters(const Function& kernel, uint32_t base);

}  // namespace cupola::ptx
