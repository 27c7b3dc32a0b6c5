// `cupola inspect`: shows the device images and kernels of a program or library. main.cpp calls
// this, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `inspect` to `app`.
void AddInspectCommand(CLI::App& app);

}  // namespace cupola
