// Launch reports of processes (profiles/report/launch_report.h) as files: the lines of JSON that processes write, one
// object with all of them, and the last such object, which `cupola run --report` (launch_report_run.cpp) keeps and
// `cupola why` reads. Called on the main thread. (The page that `cupola report` makes of traces is another thing.)
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "profiles/report/launch_report.h"

namespace cupola {

/// The reports in a file, be it one object as ReportsJson writes it or a line for each, as processes write them; in their
/// order. Lines that are no report are left out, members of another type are left empty. Errors: kNotFound, kIo; kDamaged
/// where there is no report.
Result<std::vector<LaunchReport>> ReadReports(const std::string& path);

/// {"processes": [...]}, in one line.
std::string ReportsJson(const std::vector<LaunchReport>& reports);

/// The file of the last report: last-report.json in the folder of profiles. "" where there is no such folder.
std::string LastReportPath();
/// Replaces the file at LastReportPath by `json`, and makes its folder where there is none. Errors: kIo.
Status KeepLastReport(const std::string& json);

}  // namespace cupola
