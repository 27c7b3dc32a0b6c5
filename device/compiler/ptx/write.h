// IR to PTX text. Pure; any thread.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// The module as PTX text that ptxas accepts where it accepted the text the module came from.
/// Parse(Write(m)) equals m but for source positions; Write(Parse(Write(m))) == Write(m).
std::string Write(const Module& module);

}  // namespace cupola::ptx
