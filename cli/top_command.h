// `cupola top`: who shares the GPUs, live, in a terminal.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds the subcommand `top`.
void AddTopCommand(CLI::App& app);

}  // namespace cupola
