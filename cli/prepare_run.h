// What comes before a program is started under Cupola, for all subcommands that start one: finding
// the program, Cupola's libraries and the device.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "cli/run_environment.h"

namespace cupola {

struct PreparedRun {
  std::string path;            ///< of the program
  RunEnvironment environment;  ///< no preload where nothing can be preloaded
  bool simulated = false;
};

/// Says on standard error what keeps Cupola out of the program, or the program off its device. Ends
/// the command (CLI::RuntimeError with the exit code, after one line) where it cannot be run.
/// `program` is argv[0] of the program, null = none was given; `command` is ours, for messages.
PreparedRun PrepareRun(const char* program, const std::string& device, const char* command);

/// CMD and its arguments, which TakeRunProgram took from the command line; null = none.
char** RunProgram();

/// The exit code for a program that could not be executed.
int ExecFailureCode(const Error& error);

}  // namespace cupola
