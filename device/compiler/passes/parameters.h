// The parameter block of a kernel [PTX ISA 5.1.6.1]: where each parameter lies, and where a
// variant's own parameter is added. Internal to the folder; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// The most bytes of all parameters of a kernel: up to PTX 8.1, and since then on sm_70 and later.
inline constexpr uint32_t kOldMaxParameterBytes = 4096;
inline constexpr uint32_t kMaxParameterBytes = 32764;

struct ParameterFacts {
  std::vector<ParameterFact> parameters;
  uint32_t bytes = 0;          ///< size of the parameter block
  uint32_t launch_offset = 0;  ///< offset of a parameter aligned to 8 that is added
};

/// The parameters as the compiler for `arch` (90 for sm_90) lays them out. Launches of a variant
/// rest on offsets that are read from its machine code (build/parameter_check.h), which must agree
/// with these.
ParameterFacts FindParameterFacts(const ptx::Function& kernel, uint32_t arch);

/// Size of the parameter block with one more parameter of `more` bytes.
uint32_t BytesWithLaunchParameter(const ptx::Function& kernel, uint32_t arch, size_t more);

/// Appends ".param .align 8 .b8 cupola_launch[bytes]".
void AddLaunchParameter(ptx::Function& kernel, uint32_t bytes);

}  // namespace cupola::passes
