// `cupola top`: shows live, in a terminal, which processes share the GPUs. main.cpp calls this, on
// the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds the subcommand `top`.
void AddTopCommand(CLI::App& app);

}  // namespace cupola
