// `cupola ctl`: shows and changes what the arbiter does, live.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds the subcommand `ctl`.
void AddCtlCommand(CLI::App& app);

}  // namespace cupola
