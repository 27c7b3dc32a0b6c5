// Runs a compiler as a child process with a time limit. Keeps its output for the reason of a
// failure. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupola::build {

struct ProcessEnd {
  int exit_code = 0;   ///< of a process that ended by itself
  int signal = 0;      ///< the signal that ended it, else 0
  std::string output;  ///< what it wrote to standard output and error, at most 64 KB
};

/// Runs `arguments[0]` (a path) with those arguments and an empty standard input, and waits for it.
/// Errors: kNotFound and kIo where it cannot be started; kExhausted where it was still running at
/// the limit: then the function has killed it and all that it started.
Result<ProcessEnd> RunProcess(const std::vector<std::string>& arguments,
                              std::chrono::milliseconds limit);

}  // namespace cupola::build
