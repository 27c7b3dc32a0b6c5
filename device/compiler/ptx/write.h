// IR to PTX text. Pure; any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// The module as PTX text that ptxas accepts where it accepted the text the module came from.
/// Parse(Write(m)) equals m but for source positions; Write(Parse(Write(m))) == Write(m).
std::string Write(const Module& module);

/// One node as text, for messages and dumps: "@%p1 bra $L_2;" without a newline for an instruction.
std::string Write(const Statement& statement);
std::string Write(const Instruction& instruction);
std::string Write(const Operand& operand);

}  // namespace cupola::ptx
