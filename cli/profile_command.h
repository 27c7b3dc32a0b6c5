// `cupola profile`: runs a program, measures its kernels and adds the results to the GPU's profile.
// It also merges and shows profiles. main.cpp calls this, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `profile` to `app`.
void AddProfileCommand(CLI::App& app);

}  // namespace cupola
