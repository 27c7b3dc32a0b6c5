// The steps before a program is started under Cupola: finding the program, Cupola's libraries and
// the device. The subcommands `run`, `profile` and `tune` use it, on the main thread.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "cli/run_environment.h"

namespace cupola {

struct PreparedRun {
  std::string path;            ///< of the program
  RunEnvironment environment;  ///< its `preload` is "" where nothing can be preloaded
  bool simulated = false;
};

/// Prepares the run of a program. Says on standard error what keeps Cupola out of the program, or
/// the program off its device. Where the program cannot be run, ends the command after one line
/// (CLI::RuntimeError with the exit code). `program` is argv[0] of the program, null if none was
/// given; `command` is our subcommand, for messages.
PreparedRun PrepareRun(const char* program, const std::string& device, const char* command);

/// CMD and its arguments, which TakeRunProgram took from the command line; null if there are none.
char** RunProgram();

/// The exit code for a program that could not be executed.
int ExecFailureCode(const Error& error);

}  // namespace cupola
