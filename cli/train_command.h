// `cupola train`: makes a plan of profiles: a duration model for each kernel, and what was tuned.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `train` to `app`.
void AddTrainCommand(CLI::App& app);

}  // namespace cupola
