// `cupola ptx`: each stage of the PTX compiler as a command of its own. main.cpp calls this, on the
// main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `ptx` with `parse`, `write` and `validate` to `app`. Further stages add themselves to
/// app.get_subcommand("ptx").
void AddPtxCommand(CLI::App& app);

}  // namespace cupola
