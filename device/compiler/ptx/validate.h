// Checks of a PTX module that parsing alone does not make. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

enum class Severity : uint8_t {
  kError,    ///< ptxas would refuse the module
  kWarning,  ///< it may be right, but Cupola does not understand it, or it looks wrong
};

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string message;  ///< one sentence, lower case, no trailing full stop
  SourcePos pos;        ///< position of the node; 0:0 when the module as a whole is meant

  /// "file:3:14: error: message".
  std::string ToString(std::string_view file) const;
};

/// What is wrong with `module`, in the order of the text. Nothing that ptxas accepts gives an
/// error. Errors are: names that are not declared (registers, labels, functions, variables) or
/// declared twice in one scope, guards that are not .pred, calls that do not fit their declaration
/// or prototype, wrong numbers of operands for known opcodes, a missing or unfit .version or
/// .target. Unknown opcodes, targets and types, and loads beyond a parameter, give warnings. Linear
/// in the module's size.
std::vector<Diagnostic> Validate(const Module& module);

/// Whether any diagnostic is an error.
bool HasErrors(const std::vector<Diagnostic>& diagnostics);

}  // namespace cupola::ptx
