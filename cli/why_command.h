// `cupola why`: says of a kernel in which ways its launches went out in the last report, and which forms of it the store
// has, or of a binary which forms its kernels can have, and why not, with a remedy. main.cpp calls this, on the main
// thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `why` to `app`.
void AddWhyCommand(CLI::App& app);

}  // namespace cupola
