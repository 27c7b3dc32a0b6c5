#include "cli/run_command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/settings/variables.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/launch_collector.h"
#include "cli/prepare_run.h"
#include "cli/launch_report_run.h"
#include "cli/run_environment.h"

namespace cupola {
namespace {

/// The options on the command line of `cupola run`.
struct RunOptions {
  std::string device = "auto";
  std::string trace_file;  ///< "": no trace
  bool stats = false;
  std::string timing = "events";
  std::string report;  ///< "": none; text, json, or a path
};

constexpr char kRunFooter[] =
    "\nCMD runs unchanged, and so does everything that it starts: shells, Python, children. Its\n"
    "standard streams, exit code and signals are those of a plain run. Without --trace, "
    "--stats and\n"
    "--report cupola replaces itself by CMD.\n"
    "\nDevices:\n"
    "  auto   a GPU where a driver and a device are found, else the simulated device\n"
    "  gpu    the CUDA driver of this machine\n"
    "  sim    an interpreter of PTX: right results, no speed. Programs need the shared CUDA "
    "runtime (nvcc -cudart shared) or the driver API.\n"
    "\nTiming, for --trace and --stats:\n"
    "  events  each kernel is timed on the device\n"
    "  host    only the calls are timed; adds nothing to the device's work\n"
    "  none    only the times of the calls' beginnings: the least that a launch can cost\n"
    "\nThe launch report, --report (`cupola report` is another thing: it makes a page of what --trace wrote): "
    "for each process and kernel, how many launches and how much GPU time went out as tasks, "
    "preemptible, sliced, in batches, behind gates or plain, and why not in a better way. --report prints "
    "it to standard error when CMD has ended; --report=json prints there one JSON object as the last line; "
    "--report=FILE (with a slash) writes that object to FILE. Killed processes, and those that outlive "
    "CMD, leave none.\n"
    "\nExamples:\n"
    "  cupola run -- ./vector_add 1000\n"
    "  cupola run --device sim --stats -- ./vector_add\n"
    "  cupola run --report=./report.json -- ./vector_add\n"
    "  cupola run --trace out.json -- sh -c './a; ./b'    open out.json in ui.perfetto.dev\n"
    "\nExit codes: that of CMD; 2 wrong usage, 125 cupola itself failed, 126 CMD cannot be "
    "executed,\n"
    "127 CMD was not found. When a signal ends CMD, the same signal ends cupola.\n"
    "\nEnvironment (`cupola settings` prints all variables):\n"
    "  CUPOLA_HOME    where lib/libcupola.so is (default: beside this command)\n"
    "  CUPOLA_DRIVER  path of the CUDA driver (default: as the dynamic loader finds libcuda.so.1)\n"
    "  CUPOLA_LOG     how much is logged: trace, debug, info, warn, error, off\n"
    "CMD gets LD_PRELOAD, CUPOLA_DRIVER, on the simulated device LD_LIBRARY_PATH, and with --trace or --stats "
    "CUPOLA_RECORDS and CUPOLA_TIMING.\n";

/// Prints what the collector has read. To be called after the program has ended.
void ReportLaunches(const LaunchCollector& collector, const RunOptions& options) {
  for (const Error& problem : collector.problems()) PrintError(problem);
  const LaunchTotals& totals = collector.totals();
  if (collector.is_taken_within()) {
    Say("a `cupola run` or `cupola profile` below this one took the launches of what it started");
  }
  if (collector.read() == 0 && totals.launches == 0 && totals.graph_launches == 0) {
    if (!collector.is_taken_within()) Say("no CUDA launches seen");
    return;
  }
  if (options.stats) std::fputs(Printable(collector.summary().ToString(totals)).c_str(), stderr);
  if (totals.dropped != 0 && !options.stats) {
    Say(fmt::format("{} launches are not in the trace: the program was faster than the reader",
                    totals.dropped));
  }
}

/// Runs the program below this process and collects its launches. Returns the exit code.
int RunCollecting(const RunOptions& options, RunEnvironment additions) {
  auto collector = LaunchCollector::Create(options.trace_file);
  if (!collector) Fail(collector.error(), kExitCupolaFailed);
  if (!additions.preload.empty()) {
    additions.records = (*collector)->folder();
    additions.timing = options.timing;
  }
  auto child = ChildProcess::Start(RunProgram(), WithCupola(CurrentEnvironment(), additions));
  if (!child) {
    collector->reset();  // removes the folder before Fail prints
    Fail(child.error(), ExecFailureCode(child.error()));
  }
  // If the reader of our messages has gone, the exit code must stay that of the program.
  signal(SIGPIPE, SIG_IGN);
  (*collector)->Start();
  const int status = child->Wait();
  const Status finished = (*collector)->Finish();
  ReportLaunches(**collector, options);
  collector->reset();
  if (!finished) PrintError(finished.error());  // only said: the exit code is that of the program
  return EndLike(status);
}

/// Recorded launches become neither tasks nor batches, so a report of them would be one of another run.
void RequireReportAlone(const RunOptions& options) {
  if (options.report.empty()) return;
  RequireReportValue(options.report);
  if (options.trace_file.empty() && !options.stats) return;
  Fail(MakeError(ErrorCode::kInvalidArgument, "--report cannot be used with --trace or --stats: recorded launches become "
                                              "neither tasks nor batches"),
       kExitUsage);
}

[[noreturn]] void RunPrepared(const RunOptions& options) {
  RequireReportAlone(options);
  PreparedRun run = PrepareRun(RunProgram() != nullptr ? *RunProgram() : nullptr, options.device,
                               "run");
  if (!options.report.empty()) throw CLI::RuntimeError(RunReporting(options.report, std::move(run.environment)));
  if (!options.trace_file.empty() || options.stats) {
    throw CLI::RuntimeError(RunCollecting(options, std::move(run.environment)));
  }
  // Below an outer `cupola run` that collects launches, the launches are left to that one.
  if (std::string outer = OuterRecords(); !outer.empty() && !run.environment.preload.empty()) {
    run.environment.records = std::move(outer);
    const std::string_view timing = settings::Word("CUPOLA_TIMING");
    if (timing != "none") run.environment.timing = timing;
  }
  const std::vector<std::string> environment =
      run.environment.preload.empty() ? CurrentEnvironment()
                                      : WithCupola(CurrentEnvironment(), run.environment);
  const Error error = ExecProgram(RunProgram(), environment);
  Fail(error, ExecFailureCode(error));
}

}  // namespace

void AddRunCommand(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run",
                                      "Run a program with Cupola in front of its CUDA driver:\n"
                                      "  cupola run [OPTIONS] -- CMD [ARG...]");
  run->add_option("--device", options->device, "Where kernels run: auto, gpu or sim")
      ->check(CLI::IsMember({"auto", "gpu", "sim"}))
      ->capture_default_str();
  run->add_option("--trace", options->trace_file,
                  "Write a trace to this file, for `cupola report` or ui.perfetto.dev");
  run->add_flag("--stats", options->stats,
                "After CMD ended, print a table of its kernels to standard error");
  run->add_option("--timing", options->timing, "How kernels are timed: events, host or none")
      ->check(CLI::IsMember({"events", "host", "none"}))
      ->capture_default_str();
  run->add_flag("--report{text}", options->report,
                "After CMD ended, print by kernel how its launches went out, and why not better: text, json or FILE");
  run->footer(kRunFooter);
  run->callback([options] { RunPrepared(*options); });
}

}  // namespace cupola
