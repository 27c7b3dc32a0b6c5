// Machine code with what can be read from it: what its kernels need, and its floating-point
// operations. Internal to the folder; plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compiler/build/sass.h"
#include "device/compiler/fatbin/cubin.h"

namespace cupola::build {

struct Code {
  std::vector<uint8_t> bytes;                                       ///< the cubin
  std::map<std::string, fatbin::CubinKernel, std::less<>> kernels;  ///< by mangled name
  std::map<std::string, SassFunction, std::less<>> functions;       ///< by mangled name

  /// The kernel of that name; null where the code has none.
  const fatbin::CubinKernel* Kernel(const std::string& name) const {
    const auto at = kernels.find(name);
    return at == kernels.end() ? nullptr : &at->second;
  }

  uint32_t BankConflicts() const {
    uint32_t sum = 0;
    for (const auto& [name, function] : functions) sum += function.bank_conflicts;
    return sum;
  }
};

/// Reads a cubin. Errors: kDamaged; kUnsupported for architectures before sm_70.
Result<Code> ReadCode(std::vector<uint8_t> bytes);

}  // namespace cupola::build
