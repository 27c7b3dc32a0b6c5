// `cupola tune`: finds, for each kernel of a program, the smallest L (number of blocks that a
// worker claims at a time) that keeps the preemptible variant's overhead within a bound, and what a
// preemption costs. main.cpp calls this, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `tune` to `app`.
void AddTuneCommand(CLI::App& app);

}  // namespace cupola
