#include "cli/top_command.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/arbiter_connection.h"
#include "cli/arbiter_table.h"
#include "cli/commands.h"

namespace cupola {
namespace {

struct TopOptions {
  std::string socket;
  double interval_s = 1;
  bool once = false;
};

constexpr char kTopFooter[] =
    "\nSHARE% is of the GPU time that the arbiter counted in the last interval, LAUNCHES and PREEMPTD\n"
    "are those of the interval, WAITING is how long the launch at the head has waited.\n"
    "q or Ctrl-C ends. Where standard output is no terminal, one table is printed.\n"
    "\nExit codes: 0 done, 1 no arbiter is running, 2 wrong usage.\n";

size_t Columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

/// Waits for the interval to pass; true = the user wants to end. Reads keys by lines: q and Enter.
bool WaitForEnd(int signals, double interval_s) {
  pollfd wanted[2] = {{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  const int ready = poll(wanted, 2, static_cast<int>(std::lround(interval_s * 1000)));
  if (ready <= 0) return false;
  if (wanted[0].revents != 0) return true;
  char key = 0;
  return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
}

/// A connection for each look: an idle one is closed, and the daemon may be another by then.
Result<nlohmann::json> Look(const TopOptions& options) {
  Result<ArbiterConnection> connection = ArbiterConnection::Open(options.socket);
  if (!connection) return std::move(connection).error();
  return connection->Ask({{"command", "show"}});
}

void RunTop(const TopOptions& options) {
  Result<nlohmann::json> now = Look(options);
  if (!now) Fail(now.error());
  if (options.once || isatty(STDOUT_FILENO) == 0) {
    fmt::print("{}", ArbiterTable(*now, nullptr, 0));
    return;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
  fmt::print("\x1b[?1049h\x1b[?25l");  // a screen of its own, no cursor
  nlohmann::json before = *now;
  do {
    fmt::print("\x1b[H\x1b[2J{}", ArbiterTable(*now, &before, Columns()));
    std::fflush(stdout);
    before = std::move(now).value();
    if (WaitForEnd(signal_fd, options.interval_s)) break;
    now = Look(options);
  } while (now.ok());
  fmt::print("\x1b[?25h\x1b[?1049l");
  std::fflush(stdout);
  if (!now) Fail(now.error());
}

}  // namespace

void AddTopCommand(CLI::App& app) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Watch who shares the GPUs: runs, waits, preemptions");
  top->add_option("--socket", options->socket, "The arbiter's socket, if not in its usual place");
  top->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_flag("--once", options->once, "Print one table and end");
  top->footer(kTopFooter);
  top->callback([options] { RunTop(*options); });
}

}  // namespace cupola
