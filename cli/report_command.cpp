#include "cli/report_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/report/figures.h"
#include "cli/report/page.h"
#include "cli/report/trace_input.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShareBins = 240;

struct ReportOptions {
  std::vector<std::string> traces;
  std::string page;  ///< "": beside the first trace
};

constexpr char kReportFooter[] =
    "\nTRACE is what `cupola run --trace` or `cupola serve --trace` wrote. (What `cupola run --report` prints\n"
    "is another thing: by kernel, how launches went out and why not better.) Several of the same machine\n"
    "are put on one time axis: those of programs that ran at the same time, and that of the arbiter.\n"
    "The page shows when each kernel ran and by which way it went, who waited for whom, the shares of\n"
    "the GPU over time, and how much of the GPU's time could be stopped. It is one file that needs no\n"
    "network. A trace that is cut off, because its writer was killed or still runs, is shown as far\n"
    "as it goes; what a page lacks is said on standard error and on the page.\n"
    "\nExamples:\n"
    "  cupola run --trace app.json -- ./app\n"
    "  cupola report app.json                    writes app.html\n"
    "  cupola serve --trace arbiter.json &       then programs, each with a --trace of its own\n"
    "  cupola report a.json b.json arbiter.json -o both.html\n"
    "\nExit codes: 0 the page is written; 1 a file is missing, unreadable, no trace or a damaged one, a\n"
    "trace without launches, or the page cannot be written; 2 wrong usage.\n";

std::string PageOf(const ReportOptions& options) {
  if (!options.page.empty()) return options.page;
  return fs::path(options.traces.front()).replace_extension(".html").string();
}

/// The page must not replace what it is made of.
void RequireOtherFile(const std::string& page, const std::vector<std::string>& traces) {
  for (const std::string& trace : traces) {
    std::error_code ignored;
    if (page != trace && !fs::equivalent(page, trace, ignored)) continue;
    Fail(MakeError(ErrorCode::kInvalidArgument, "the page would replace the trace; name another file with -o",
                   Location{.file = page}),
         kExitUsage);
  }
}

/// "a.json", or "a.json and 2 more".
std::string TitleOf(const std::vector<std::string>& traces) {
  std::string title = fs::path(traces.front()).filename().string();
  if (traces.size() > 1) title += fmt::format(" and {} more", traces.size() - 1);
  return title;
}

void MakeReport(const ReportOptions& options) {
  const std::string page = PageOf(options);
  RequireOtherFile(page, options.traces);
  Result<report::Report> report = report::ReadTraces(options.traces);
  if (!report) Fail(report.error());
  for (const std::string& note : report->notes) Say(note);
  report::AddPhasesOfLaunches(&*report);
  const report::Figures figures = report::MakeFigures(*report, kShareBins);
  const Status written = profiles::WriteFileWhole(page, report::MakePage(TitleOf(options.traces), *report, figures));
  if (!written) Fail(written.error());
  const size_t programs = report->processes.size();
  fmt::print("{}: {} launches of {} program{} in {:.3f} ms\n", Printable(page), report->launches.size(), programs,
             programs == 1 ? "" : "s", static_cast<double>(report->end_ns - report->begin_ns) / 1e6);
}

}  // namespace

void AddReportCommand(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand("report", "Make a page of traces (of run --trace, serve --trace), for a browser");
  report->add_option("TRACE", options->traces, "Traces of programs, and of the arbiter")->required();
  report->add_option("-o,--output", options->page, "The page (default: the first TRACE, with .html at its end)");
  report->footer(kReportFooter);
  report->callback([options] { MakeReport(*options); });
}

}  // namespace cupola
