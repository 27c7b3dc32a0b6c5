// `cupola ptx run`: one kernel of a PTX file on the simulated device. Single-threaded, ends the
// command as commands.h says.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `run` below the App of `cupola ptx`.
void AddPtxRunCommand(CLI::App& ptx_app);

}  // namespace cupola
