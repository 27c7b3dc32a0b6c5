#include "cli/run_command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/installation.h"
#include "cli/launch_collector.h"
#include "cli/program.h"
#include "cli/run_environment.h"

namespace cupola {
namespace {

/// What the command line of `cupola run` said.
struct RunOptions {
  std::string device = "auto";
  std::string trace_file;  ///< empty = no trace
  bool stats = false;
  std::string timing = "events";
};

/// CMD and its arguments, in argv's memory; set by TakeRunProgram.
char** g_program = nullptr;

constexpr char kRunFooter[] =
    "\nCMD runs unchanged, and so does everything that it starts: shells, Python, children. Its\n"
    "standard streams, exit code and signals are those of a plain run. Without --trace and "
    "--stats\n"
    "cupola replaces itself by CMD.\n"
    "\nDevices:\n"
    "  auto   a GPU where a driver and a device are found, else the simulated device\n"
    "  gpu    the CUDA driver of this machine\n"
    "  sim    an interpreter of PTX: right results, no speed. Programs need the shared CUDA "
    "runtime\n"
    "         (nvcc -cudart shared) or the driver API.\n"
    "\nTiming, for --trace and --stats:\n"
    "  events  each kernel is timed on the device\n"
    "  host    only the calls are timed; adds nothing to the device's work\n"
    "  none    only the times of the calls' beginnings: the least that a launch can cost\n"
    "\nExamples:\n"
    "  cupola run -- ./vector_add 1000\n"
    "  cupola run --device sim --stats -- ./vector_add\n"
    "  cupola run --trace out.json -- sh -c './a; ./b'    open out.json in ui.perfetto.dev\n"
    "\nExit codes: that of CMD; 2 wrong usage, 125 cupola itself failed, 126 CMD cannot be "
    "executed,\n"
    "127 CMD was not found. When a signal ends CMD, the same signal ends cupola.\n"
    "\nEnvironment:\n"
    "  CUPOLA_HOME    where lib/libcupola.so is (default: beside this command)\n"
    "  CUPOLA_DRIVER  path of the CUDA driver (default: as the dynamic loader finds libcuda.so.1)\n"
    "  CUPOLA_LOG     how much is logged: trace, debug, info, warn, error, off\n"
    "  CMD gets LD_PRELOAD, CUPOLA_DRIVER, on the simulated device LD_LIBRARY_PATH, and with "
    "--trace\n"
    "  or --stats CUPOLA_RECORDS and CUPOLA_TIMING.\n";

[[noreturn]] void Fail(const Error& error, int code) {
  PrintError(error);
  throw CLI::RuntimeError(code);
}

/// Says a sentence to the user. fputs, as fmt::print throws where standard error is closed.
void Say(const std::string& text) { std::fputs(("cupola: " + text + "\n").c_str(), stderr); }

int ExecFailureCode(const Error& error) {
  return error.code == ErrorCode::kNotFound ? kExitNotFound : kExitCannotExecute;
}

/// Says once what keeps Cupola out of the program, or will keep the program off its device. Returns
/// whether the loader will preload into it, or into what it starts.
bool SayLimits(const ProgramFacts& facts, const DeviceChoice& device) {
  if (facts.secure) {
    Say(fmt::format(
        "{} runs with other rights than yours, so the loader preloads nothing into it: it "
        "runs without Cupola (start cupola with those rights instead)",
        facts.file));
    return false;
  }
  if (facts.foreign) {
    Say(fmt::format("{} is not a program for x86-64 glibc: it runs without Cupola", facts.file));
    return false;
  }
  if (facts.is_static) {
    Say(fmt::format("{} is statically linked, so nothing can be preloaded into it: it runs without "
                    "Cupola (programs that it starts do not)", facts.file));
    return true;
  }
  if (device.simulated && facts.has_kernels && facts.cudart.empty()) {
    Say(fmt::format(
        "{} seems to have the CUDA runtime linked in, which cannot run on the simulated "
        "device: build it with nvcc -cudart shared",
        facts.file));
  } else if (device.simulated && !facts.cudart.empty() && facts.cudart != "libcudart.so.13") {
    Say(fmt::format("{} needs {}; the simulated device has libcudart.so.13: build it with CUDA 13",
                    facts.file, facts.cudart));
  }
  return true;
}

/// Prints what the collector saw, after the program ended.
void Report(const LaunchCollector& collector, const RunOptions& options) {
  for (const Error& problem : collector.problems()) PrintError(problem);
  const LaunchTotals& totals = collector.totals();
  if (collector.read() == 0 && totals.launches == 0 && totals.graph_launches == 0) {
    Say("no CUDA launches seen");
    return;
  }
  if (options.stats) std::fputs(collector.summary().ToString(totals).c_str(), stderr);
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
  auto child = ChildProcess::Start(g_program, WithCupola(CurrentEnvironment(), additions));
  if (!child) {
    collector->reset();  // `throw` in Fail would be in time as well; the folder goes first
    Fail(child.error(), ExecFailureCode(child.error()));
  }
  signal(SIGPIPE, SIG_IGN);  // a reader of our messages that left does not change the exit code
  (*collector)->Start();
  const int status = child->Wait();
  const Status finished = (*collector)->Finish();
  Report(**collector, options);
  collector->reset();
  if (!finished) PrintError(finished.error());  // the program's end counts for more
  return EndLike(status);
}

[[noreturn]] void Run(const RunOptions& options) {
  if (g_program == nullptr || *g_program == nullptr) {
    Fail(MakeError(ErrorCode::kInvalidArgument, "no program given; try: cupola run -- ./app"),
         kExitUsage);
  }
  const auto path = FindProgram(g_program[0]);
  if (!path) Fail(path.error(), ExecFailureCode(path.error()));
  const char* home = std::getenv("CUPOLA_HOME");
  const auto installation = FindInstallation(home != nullptr ? home : "");
  if (!installation) Fail(installation.error(), kExitCupolaFailed);
  const auto device = ChooseDevice(options.device, DefaultDriverPlaces(), *installation);
  if (!device) Fail(device.error(), kExitCupolaFailed);
  // ld.so(8): the words of LD_PRELOAD are separated by spaces or colons, without any escape.
  if (installation->preload.find_first_of(" :") != std::string::npos) {
    Fail(MakeError(
             ErrorCode::kInvalidArgument,
             fmt::format("{}: a path with a space or colon cannot be preloaded; move Cupola to "
                         "another folder",
                         installation->preload)),
         kExitCupolaFailed);
  }
  RunEnvironment additions;
  if (SayLimits(LookAtProgram(*path), *device)) {
    additions.preload = installation->preload;
    additions.driver = device->driver;
    if (device->simulated) additions.library_folder = installation->sim_folder;
  }
  if (!options.trace_file.empty() || options.stats) {
    throw CLI::RuntimeError(RunCollecting(options, std::move(additions)));
  }
  const std::vector<std::string> environment = additions.preload.empty()
                                                   ? CurrentEnvironment()
                                                   : WithCupola(CurrentEnvironment(), additions);
  const Error error = ExecProgram(g_program, environment);
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
                  "Write a trace to this file, to be opened in ui.perfetto.dev");
  run->add_flag("--stats", options->stats,
                "After CMD ended, print a table of its kernels to standard error");
  run->add_option("--timing", options->timing, "How kernels are timed: events, host or none")
      ->check(CLI::IsMember({"events", "host", "none"}))
      ->capture_default_str();
  run->footer(kRunFooter);
  run->callback([options] { Run(*options); });
}

int TakeRunProgram(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
  const CLI::App* run = app.get_subcommand("run");
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      g_program = argv + i + 1;
      return i;
    }
    if (word.size() < 2 || word[0] != '-') {
      g_program = argv + i;
      return i;
    }
    const CLI::Option* option = run->get_option_no_throw(std::string(word));
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return argc;
}

}  // namespace cupola
