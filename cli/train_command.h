// `cupola train`: makes a plan from profiles, with a duration model for each kernel and the results
// of tuning. main.cpp calls this, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `train` to `app`.
void AddTrainCommand(CLI::App& app);

}  // namespace cupola
