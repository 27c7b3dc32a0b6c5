// `cupola profile`: runs a program, measures its kernels and adds that to the GPU's profile; merges
// and shows profiles.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `profile` to `app`.
void AddProfileCommand(CLI::App& app);

}  // namespace cupola
