// Sizes of variables, and where a kernel's parameters lie [PTX ISA 5.1.6.1, 5.2]. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Size in bytes of a variable whose type has a size; 0 otherwise.
uint64_t VariableBytes(const Variable& variable);
/// Alignment of the variable's address, in bytes.
uint32_t VariableAlign(const Variable& variable);

/// Where the parameters of a kernel begin in the constant bank of an architecture (90 for sm_90), in bytes. ptxas
/// aligns a parameter by its absolute place in that bank, so from an alignment of 32 on the offsets from the first
/// parameter differ between architectures. The values are from EIATTR_PARAM_CBANK of what ptxas 13.0 makes for sm_75 to
/// sm_121. The passes' layout is compared with each cubin (build/parameter_check.h).
constexpr uint32_t ParameterBase(uint32_t arch) {
  if (arch >= 100) return 0x380;
  return arch >= 90 ? 0x210 : 0x160;
}

struct PlacedParameter {
  uint32_t offset = 0;  ///< bytes behind the beginning of the parameters
  uint32_t bytes = 0;   ///< size
  uint32_t align = 0;   ///< alignment in bytes
};

struct ParameterLayout {
  std::vector<PlacedParameter> parameters;  ///< in their order
  uint32_t bytes = 0;                       ///< from the beginning of the first to the end of the last
};

/// Lays out the parameters of a kernel; the first lies at `base` (ParameterBase) or behind it.
ParameterLayout LayOutParameters(const Function& kernel, uint32_t base);

}  // namespace cupola::ptx
