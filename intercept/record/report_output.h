// Whether this process writes a launch report at its end (what `cupola run --report` prints; not the page of `cupola
// report`), and where to (CUPOLA_REPORT): as text or as one line of JSON on standard error, or as a line of JSON at the end
// of a file. Reports of several processes do not mix: a line in a file is written by one write(2) in append mode, and
// standard error is locked meanwhile (fcntl(2)).
#pragma once

namespace cupola::intercept {

/// Reads CUPOLA_REPORT and starts to time launches. False: there is to be no report. Called at the process's start, if
/// launches are not recorded.
bool StartReport() noexcept;

/// Says once that there is no report, if there was to be one, because launches are recorded.
void SayNoReport() noexcept;

/// From exit(), after the last launch was timed: writes the report. A second call does nothing.
void WriteReportAtExit() noexcept;

/// In the child after a fork: forgets what was counted. The child's first call decides anew, by StartReport.
void ForgetReportAfterFork() noexcept;

}  // namespace cupola::intercept
