// Counts the floating-point instructions of machine code, to tell whether a variant computes with
// the same operations as the kernel that a program ships: ptxas is free to fuse a mul and an add,
// or not to. docs/variants.md says how far this goes and what is left out. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::build {

/// How often each operation occurs in the code, by name ("FFMA", "MUFU.RCP"). Leaves out what
/// serves integers only: divisions (I2F.RP, MUFU.RCP, F2I) and constants that HFMA2 puts into a
/// register.
using FloatCounts = std::map<std::string, uint32_t, std::less<>>;

/// One section .text.<name> of a cubin.
struct SassFunction {
  std::string name;  ///< mangled name of the kernel or function
  uint32_t instructions = 0;
  FloatCounts floats;
  /// Number of fused multiply-adds whose three operands lie in one register bank (even or odd). The
  /// hardware reads the operands of such an instruction a cycle later, and the instructions that
  /// need its result wait for it.
  uint32_t bank_conflicts = 0;
};

/// Counts for every function of a cubin. Errors: kDamaged; kUnsupported for architectures before
/// sm_70, whose instructions have another form.
Result<std::vector<SassFunction>> CountFloats(fatbin::Bytes cubin);

/// How two counts differ, "FADD 2 (original 0), FFMA 3 (original 5)"; "" where they do not.
std::string FloatDifference(const FloatCounts& original, const FloatCounts& variant);

}  // namespace cupola::build
