#include "cli/launch_report_run.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/private_folder.h"
#include "base/settings/variables.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/launch_report_file.h"
#include "cli/prepare_run.h"

namespace cupola {
namespace {

bool IsFile(const std::string& report) { return report != "text" && report != "json"; }

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

void PrintReports(const std::string& report, const std::vector<LaunchReport>& reports, std::FILE* file) {
  const std::string json = ReportsJson(reports) + "\n";
  if (report == "json") {
    std::fputs(json.c_str(), stderr);
  } else if (file != nullptr) {
    const bool is_written = std::fputs(json.c_str(), file) >= 0 && std::fflush(file) == 0;
    if (!is_written) Say(fmt::format("{}: {}", report, std::strerror(errno)));
  } else {
    for (const LaunchReport& each : reports) std::fputs(Printable(ReportText(each)).c_str(), stderr);
  }
  if (reports.empty() && report != "json") {
    Say("no report: no process of the program used CUDA and ended by exit() or by returning from main");
  }
  if (const Status kept = KeepLastReport(json); !kept) {
    Say("the report is not kept for `cupola why`: " + kept.error().ToString());
  }
}

}  // namespace

void RequireReportValue(const std::string& report) {
  if (!IsFile(report) || report.find('/') != std::string::npos) return;
  Fail(MakeError(ErrorCode::kInvalidArgument,
                 fmt::format("--report={}: must be text, json, or a path with a slash, such as ./report.json", report)),
       kExitUsage);
}

int RunReporting(const std::string& report, RunEnvironment additions) {
  File file;
  if (IsFile(report)) {
    file.reset(std::fopen(report.c_str(), "we"));
    if (file == nullptr) {
      Fail(MakeError(ErrorCode::kIo, std::strerror(errno), Location{.file = report}), kExitCupolaFailed);
    }
  }
  auto made = PrivateFolder::Make(PrivateFolder::First::kMemory);
  if (!made) Fail(made.error(), kExitCupolaFailed);
  std::optional<PrivateFolder> folder(*std::move(made));
  const std::string lines = folder->path() + "/reports";
  if (!additions.preload.empty()) additions.variables.emplace_back(settings::Name("CUPOLA_REPORT"), lines);
  auto child = ChildProcess::Start(RunProgram(), WithCupola(CurrentEnvironment(), additions));
  if (!child) {
    folder.reset();  // before Fail prints
    Fail(child.error(), ExecFailureCode(child.error()));
  }
  // If the reader of our messages has gone, the exit code must stay that of the program.
  signal(SIGPIPE, SIG_IGN);
  const int status = child->Wait();
  const Result<std::vector<LaunchReport>> reports = ReadReports(lines);
  PrintReports(report, reports ? *reports : std::vector<LaunchReport>(), file.get());
  folder.reset();
  file.reset();
  return EndLike(status);
}

}  // namespace cupola
