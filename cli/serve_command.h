// `cupola serve`: runs the arbiter of this machine's GPUs for the processes of a user. main.cpp
// calls this, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds the subcommand `serve`.
void AddServeCommand(CLI::App& app);

}  // namespace cupola
