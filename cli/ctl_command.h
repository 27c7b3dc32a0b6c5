// `cupola ctl`: shows and changes what the running arbiter does. main.cpp calls this, on the main
// thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds the subcommand `ctl`.
void AddCtlCommand(CLI::App& app);

}  // namespace cupola
