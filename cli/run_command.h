// `cupola run`: starts a program with libcupola.so in front of its CUDA driver and, where asked,
// collects the launch records of all its processes. Single-threaded up to the start of the program.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `run` to `app`.
void AddRunCommand(CLI::App& app);

/// Splits "run [OPTIONS] [--] CMD ARGS": keeps CMD and ARGS for the run command of `app` and
/// returns how many of `argv` are Cupola's own to parse. argc when the command line is not one of
/// `run`. CMD begins after the first "--" or at the first word that is no option, so that no option
/// of CMD is ever read as one of ours, and CMD may have the name of a subcommand. Of `profile` and
/// `tune` only "--" begins CMD.
int TakeRunProgram(const CLI::App& app, int argc, char** argv);

}  // namespace cupola
