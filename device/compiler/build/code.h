// The machine code of one compiled module, with what ReadCode reads from it: what each kernel needs
// (registers, memory, parameters), and the floating-point operations of each function. The builders
// (module_build.cpp, task_build.cpp) compare the program's own Code with that of variants and
// tasks. Internal to the folder; plain values without locks.
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
  /// By mangled name; kernels are among them.
  std::map<std::string, SassFunction, std::less<>> functions;

  /// The kernel of that name; null where the code has none.
  const fatbin::CubinKernel* Kernel(const std::string& name) const {
    const auto at = kernels.find(name);
    return at == kernels.end() ? nullptr : &at->second;
  }

  /// Number of multiply-adds in all functions whose operands lie in one bank of registers
  /// (SassFunction::bank_conflicts). It says nothing about the banks of shared memory.
  uint32_t BankConflicts() const {
    uint32_t sum = 0;
    for (const auto& [name, function] : functions) sum += function.bank_conflicts;
    return sum;
  }
};

/// How functions that the kernels of `variants` call differ from those that the original's kernels call, as a phrase; "":
/// they do not. Functions that are called, not inlined, have code of their own, which is the same for all their callers.
std::string CalleeDifference(const Code& original, const Code& variants);

/// Reads a cubin. Errors: kDamaged; kUnsupported for architectures before sm_70.
Result<Code> ReadCode(std::vector<uint8_t> bytes);

}  // namespace cupola::build
