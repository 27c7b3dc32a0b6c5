// `cupola run --report`: runs a program below this process and prints, at its end, the report of each of its processes
// (profiles/report/launch_report.h). The preloaded library in each process writes its report as a line of one file in a
// private folder. Called by run_command.cpp, on the main thread.
#pragma once

#include <string>

#include "cli/run_environment.h"

namespace cupola {

/// Runs RunProgram() and prints the reports as `report` says: "text" or "json" (one line, the last) to standard error;
/// anything else is the file into which the JSON is written. Returns the exit code of the command, or ends the command
/// before the program begins, where the file cannot be written.
int RunReporting(const std::string& report, RunEnvironment additions);

/// Ends the command with kExitUsage unless the value of --report is text, json or a path with a slash.
void RequireReportValue(const std::string& report);

}  // namespace cupola
