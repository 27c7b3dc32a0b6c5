// `cupola build` makes the variants of the kernels of a program, and of the libraries that it
// loads, and puts them into the store. `cupola store` shows and trims the store. main.cpp calls
// these functions, on the main thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `build`, and `build-worker`, the process in which `build` runs the compiler that is a
/// library.
void AddBuildCommand(CLI::App& app);

/// Adds `store` with `list`, `path`, `evict` and `clear`.
void AddStoreCommand(CLI::App& app);

}  // namespace cupola
