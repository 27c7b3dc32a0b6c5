// `cupola report`: makes one HTML page of the traces of programs and of the arbiter. main.cpp calls this, on the main
// thread.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

/// Adds `report` to `app`.
void AddReportCommand(CLI::App& app);

}  // namespace cupola
