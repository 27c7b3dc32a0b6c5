// `cupola ptx run`: runs one kernel of a PTX file on the simulated device. main.cpp calls this, on
// the main thread; it ends the command as commands.h says.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `run` below the App of `cupola ptx`.
void AddPtxRunCommand(CLI::App& ptx_app);

}  // namespace cupola
