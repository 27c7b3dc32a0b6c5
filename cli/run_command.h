// `cupola run`: starts a program with libcupola.so in front of its CUDA driver and, where asked,
// collects the launch records of all its processes. main.cpp calls this, on the main thread; there
// is no other thread until the program has been started.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `run` to `app`.
void AddRunCommand(CLI::App& app);

/// Splits "run [OPTIONS] [--] CMD ARGS": keeps CMD and ARGS for RunProgram(), and returns how many
/// of `argv` Cupola itself has to parse. Returns argc for a subcommand that runs no program. CMD
/// begins after the first "--" or at the first word that is no option, so an option of CMD is never
/// read as one of ours, and CMD may have the name of a subcommand. For `profile` and `tune`, CMD
/// begins only after "--".
int TakeRunProgram(const CLI::App& app, int argc, char** argv);

}  // namespace cupola
