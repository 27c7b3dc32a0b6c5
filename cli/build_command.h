// `cupola build`: variants of the kernels of a program and of the libraries that it loads, into the
// variant store; `cupola store`: what lies there. Single-threaded for their caller.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `build`, and `build-worker`, the process that `build` runs a library's compiler in.
void AddBuildCommand(CLI::App& app);

/// Adds `store` with `list`, `path`, `evict` and `clear`.
void AddStoreCommand(CLI::App& app);

}  // namespace cupola
