// Reads PTX for the stages of `cupola ptx`. Any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"

namespace cupola {

/// The name of an input in messages: the path, or "standard input" for "-".
std::string ShownName(const std::string& path);

/// The bytes of a file, or of standard input for "-". Errors: kNotFound, kIo.
Result<std::string> ReadInput(const std::string& path);

/// The PTX text of a file, or of standard input for "-". Errors: those of ReadInput; kUnsupported
/// for a file that is not text, with what to do instead.
Result<std::string> ReadPtxText(const std::string& path);

/// Parses the PTX text of a file, or of standard input for "-". Errors: those of ReadPtxText and of
/// ptx::Parse.
Result<ptx::Module> ReadPtx(const std::string& path);

}  // namespace cupola
