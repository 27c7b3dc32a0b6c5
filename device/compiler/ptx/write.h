// Writes IR as PTX text. Pure; any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// The module as PTX text. ptxas accepts it if it accepted the text from which the module came.
/// Parse(Write(m)) equals m except for source positions, and Write(Parse(Write(m))) == Write(m).
std::string Write(const Module& module);

/// One node as text, for messages and dumps. An instruction is "@%p1 bra $L_2;" without a newline.
std::string Write(const Statement& statement);
std::string Write(const Instruction& instruction);
std::string Write(const Operand& operand);

}  // namespace cupola::ptx
