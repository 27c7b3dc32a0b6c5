#include "cli/serve_command.h"

#include <csignal>
#include <memory>
#include <string>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/background_log.h"
#include "base/settings/problems.h"
#include "base/standard_error.h"
#include "cli/commands.h"
#include "sched/board/socket_path.h"
#include "sched/board/yield_protocol.h"
#include "sched/daemon/arbiter_trace.h"
#include "sched/daemon/mps_control.h"
#include "sched/daemon/server.h"

namespace cupola {
namespace {

constexpr int kFullPipeMs = 100;

struct ServeOptions {
  std::string config;
  std::string socket;
  std::string trace_file;  ///< "": no trace
  bool mps = false;
};

constexpr char kServeFooter[] =
    "\nPrograms that `cupola run` starts find the arbiter by its socket: CUPOLA_SOCKET, else arbiter.sock\n"
    "in $XDG_RUNTIME_DIR/cupola, /run/user/UID/cupola or /tmp/cupola-UID.\n"
    "SIGHUP (or `cupola ctl reload`) reads the configuration again; SIGTERM or SIGINT ends.\n"
    "\nExamples:\n"
    "  cupola serve                              priorities all equal, shortest kernel first\n"
    "  cupola serve --config cupola.toml         rules: which programs matter\n"
    "  cupola serve --trace arbiter.json         then: cupola report app.json arbiter.json\n"
    "\nExit codes: 0 ended by a signal, 1 the configuration or the socket's place is wrong, or another\n"
    "daemon is there, 2 wrong usage.\n";

/// As Fail, but does not block where standard error accepts no more output.
[[noreturn]] void EndWith(const Error& error) {
  const std::string text = "cupola: " + Printable(error.ToString()) + "\n";
  (void)WriteToStandardError(text.data(), text.size());
  throw CLI::RuntimeError(kExitBadInput);
}

sched::ArbiterPlaces PlacesFor(const ServeOptions& options, const sched::Config& config) {
  const std::string& named = !options.socket.empty() ? options.socket : config.socket;
  const sched::ArbiterPlaces places = named.empty() ? sched::FindArbiterPlaces() : sched::NamedPlace(named.c_str());
  if (places.count != 0) return places;
  EndWith(MakeError(ErrorCode::kInvalidArgument, places.problem, Location{.file = named}));
}

/// Ignores the signals that writing can cause (to a pipe, a file or a terminal), so that an error of a write shows at
/// that write and does not end the daemon.
void IgnoreSignals() {
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGXCPU, SIGTTOU}) {
    std::signal(signal, SIG_IGN);
  }
}

/// Prints the line for which scripts wait. It is left out if nobody reads standard output and the pipe stays full.
void SayListening(const std::string& path) {
  const std::string line = fmt::format("listening on {}\n", path);
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&output, 1, kFullPipeMs) == 1) (void)!write(STDOUT_FILENO, line.data(), line.size());
}

void Serve(const ServeOptions& options) {
  IgnoreSignals();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const BackgroundLog log;
  settings::ForEachProblem(environ, settings::kCommand,
                           [](settings::Problem, const char* line) { spdlog::warn("{}", Printable(line)); });
  sched::Config config;
  if (!options.config.empty()) {
    Result<sched::Config> read = sched::ReadConfig(options.config);
    if (!read) EndWith(read.error());
    config = std::move(read).value();
  }
  const sched::ArbiterPlaces places = PlacesFor(options, config);
  const bool mps = options.mps || config.mps;
  auto server = sched::Server::Start(places, std::move(config), options.config);
  if (!server) EndWith(server.error());
  if (!options.trace_file.empty()) {
    auto trace = sched::ArbiterTrace::Create(options.trace_file, sched::BoardClockNs());
    if (!trace) EndWith(trace.error());
    (*server)->SetTrace(std::move(trace).value());
  }
  sched::MpsControl control;
  if (mps) {
    // MPS starts before the line for which scripts wait, so that programs that start after it are clients of MPS.
    if (const Status started = control.Start(); !started) {
      spdlog::warn("{}; going on without MPS", started.error().ToString());
    }
    (*server)->SetUsesMps(control.runs());
  }
  SayListening((*server)->socket_path());
  if (const Status status = (*server)->Run(); !status) EndWith(status.error());
}

}  // namespace

void AddServeCommand(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* serve = app.add_subcommand(
      "serve", "Decide, for the programs that share a GPU, whose kernels run");
  serve->add_option("--config", options->config, "The configuration, a TOML file");
  serve->add_option("--socket", options->socket, "Where programs find it, an absolute path");
  serve->add_option("--trace", options->trace_file,
                    "Write who ran and who waited to this file, a trace for the page of `cupola report`");
  serve->add_flag("--mps", options->mps,
                  "Start NVIDIA's MPS control daemon, and stop it at the end");
  serve->footer(kServeFooter);
  serve->callback([options] { Serve(*options); });
}

}  // namespace cupola
