// `cupola inspect`: the device images and kernels of a program or library. Single-threaded for its
// caller.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `inspect` to `app`.
void AddInspectCommand(CLI::App& app);

}  // namespace cupola
