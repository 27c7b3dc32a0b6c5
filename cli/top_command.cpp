#include "cli/top_command.h"

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/arbiter_connection.h"
#include "cli/arbiter_table.h"
#include "cli/commands.h"
#include "cli/end_signals.h"
#include "cli/terminal_screen.h"
#include "cli/terminal_text.h"

namespace cupola {
namespace {

struct TopOptions {
  std::string socket;
  double interval_s = 1;
  bool once = false;
};

constexpr char kTopFooter[] =
    "\nSHARE% is of the GPU time that the arbiter counted in the last interval, LAUNCHES and PREEMPTD\n"
    "are those of the interval, WAITING is how long the launch at the head has waited. The busiest come\n"
    "first; with the arrow keys, Page Up and Page Down the rest is seen. On a narrow terminal columns are\n"
    "left out, and a * behind a state is for what `cupola ctl show` says of it.\n"
    "q or Ctrl-C ends. Where standard output is no terminal, one table is printed; on a terminal that\n"
    "cannot move its cursor (TERM=dumb) they come one below the other.\n"
    "\nExit codes: 0 done, 1 no arbiter is running, 2 wrong usage.\n";

/// Asks the daemon for its state. It makes a new connection each time, because the daemon closes idle connections and
/// may have been restarted.
Result<nlohmann::json> Look(const TopOptions& options) {
  Result<ArbiterConnection> connection = ArbiterConnection::Open(options.socket);
  if (!connection) return std::move(connection).error();
  return connection->Ask({{"command", "show"}});
}

/// While it exists, standard input gives keys without Enter. For use where there is no TerminalScreen, which does the
/// same.
class KeysAtOnce {
 public:
  KeysAtOnce() : is_terminal_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios changed = before_;
    changed.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    if (is_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &changed);
  }
  KeysAtOnce(const KeysAtOnce&) = delete;
  KeysAtOnce& operator=(const KeysAtOnce&) = delete;
  ~KeysAtOnce() {
    if (is_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

 private:
  termios before_{};
  bool is_terminal_;
};

enum class Wake { kTime, kKeys, kResized, kEnd };

/// Waits until the time `until`, or earlier for a key where standard input is a terminal, for a signal that ends the
/// command, for a changed size of the terminal, or for the terminal's end.
Wake WaitFor(int end_fd, std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  const int keys = isatty(STDIN_FILENO) != 0 ? STDIN_FILENO : -1;
  pollfd wanted[3] = {{end_fd, POLLIN, 0}, {keys, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  const int ready = poll(wanted, 3, static_cast<int>(std::max<int64_t>(left, 0)));
  if (ready < 0) return Wake::kResized;  // EINTR, by the only signal that is handled and not blocked
  if (wanted[0].revents != 0 || ((wanted[1].revents | wanted[2].revents) & (POLLERR | POLLHUP)) != 0) {
    return Wake::kEnd;
  }
  return ready == 0 ? Wake::kTime : Wake::kKeys;
}

/// The lines that fit into `rows`: the `head` first ones always, and of the others those from `first` on. Where some
/// are left out, the last line says so.
std::vector<std::string> Window(const std::vector<std::string>& lines, size_t head, size_t rows, size_t& first) {
  if (lines.size() <= rows) {
    first = 0;
    return lines;
  }
  if (rows <= head + 1) return {lines.begin(), lines.begin() + static_cast<ptrdiff_t>(rows)};
  const size_t room = rows - head - 1, others = lines.size() - head;
  first = std::min(first, others - room);
  std::vector<std::string> shown(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(head));
  const auto from = lines.begin() + static_cast<ptrdiff_t>(head + first);
  shown.insert(shown.end(), from, from + static_cast<ptrdiff_t>(room));
  shown.push_back(fmt::format("{}-{} of {} lines; arrow keys for the others, q ends", first + 1, first + room, others));
  return shown;
}

void Scroll(TerminalKey key, size_t rows, size_t& first) {
  const size_t page = rows > 4 ? rows - 4 : 1;
  switch (key) {
    case TerminalKey::kUp: first -= first > 0 ? 1 : 0; break;
    case TerminalKey::kDown: ++first; break;
    case TerminalKey::kPageUp: first -= std::min(first, page); break;
    case TerminalKey::kPageDown: first += page; break;
    case TerminalKey::kHome: first = 0; break;
    case TerminalKey::kEnd: first = SIZE_MAX / 2; break;
    default: break;
  }
}

/// Shows tables until the user ends the command or the daemon does not answer any more. `show` draws a table; `is_end`
/// reads the keys and says whether to end.
template <typename Show, typename IsEnd>
Status Repeat(const TopOptions& options, nlohmann::json now, int end_fd, Show show, IsEnd is_end) {
  const auto interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.interval_s));
  nlohmann::json before = now;
  for (;;) {
    show(now, before);
    const auto end = std::chrono::steady_clock::now() + interval;
    for (Wake wake = Wake::kKeys; wake != Wake::kTime;) {
      wake = WaitFor(end_fd, end);
      if (wake == Wake::kEnd || is_end()) return {};
      if (wake != Wake::kTime) show(now, before);
    }
    before = std::move(now);
    Result<nlohmann::json> next = Look(options);
    if (!next) return std::move(next).error();
    now = std::move(next).value();
  }
}

Status WatchOnScreen(const TopOptions& options, nlohmann::json now, int end_fd, TerminalScreen& screen) {
  size_t first = 0;
  const auto show = [&](const nlohmann::json& answer, const nlohmann::json& before) {
    const size_t head = answer["gpus"].size() == 1 ? 2 : 0;
    screen.Show(Window(ArbiterTable(answer, &before, screen.columns()), head, screen.rows(), first));
  };
  const auto is_end = [&] {
    for (TerminalKey key = screen.ReadKey(); key != TerminalKey::kNone; key = screen.ReadKey()) {
      if (key == TerminalKey::kQuit) return true;
      Scroll(key, screen.rows(), first);
    }
    return false;
  };
  return Repeat(options, std::move(now), end_fd, show, is_end);
}

/// For a terminal whose cursor cannot be moved: prints one table below the other, each cut to the rows and columns of
/// the terminal.
Status WatchLineByLine(const TopOptions& options, nlohmann::json now, int end_fd) {
  const KeysAtOnce keys;
  uint64_t shown = 0;  // the last answer that was printed; a key or a new size does not print it again
  const auto show = [&, looks = uint64_t{0}](const nlohmann::json& answer, const nlohmann::json& before) mutable {
    const uint64_t look = answer["gpus"].empty() ? ++looks : answer["gpus"][0]["now_ns"].get<uint64_t>();
    if (look == std::exchange(shown, look)) return;
    winsize size{};
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1;
    const size_t columns = is_known ? size.ws_col - 1 : 120;
    std::vector<std::string> lines = ArbiterTable(answer, &before, columns);
    const size_t most = is_known ? size.ws_row - 1 : lines.size();
    if (lines.size() > most) {
      const size_t left_out = lines.size() - most + 1;
      lines.resize(most - 1);
      lines.push_back(fmt::format("and {} more lines", left_out));
    }
    for (const std::string& line : lines) fmt::print("{}\n", FitToColumnsAsBytes(line, columns));
    std::fflush(stdout);
  };
  const auto is_end = [] {
    pollfd typed{isatty(STDIN_FILENO) != 0 ? STDIN_FILENO : -1, POLLIN, 0};
    char key = 0;
    while (poll(&typed, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1) {
      if (key == 'q' || key == 'Q') return true;
    }
    return false;
  };
  return Repeat(options, std::move(now), end_fd, show, is_end);
}

void RunTop(const TopOptions& options) {
  std::setlocale(LC_CTYPE, "");
  Result<nlohmann::json> now = Look(options);
  if (!now) Fail(now.error());
  if (options.once || isatty(STDOUT_FILENO) == 0) {
    fmt::print("{}", ArbiterTableText(*now));
    return;
  }
  Status status;
  {
    const EndSignals signals;
    if (const std::unique_ptr<TerminalScreen> screen = TerminalScreen::Open()) {
      status = WatchOnScreen(options, std::move(now).value(), signals.fd(), *screen);
    } else {
      status = WatchLineByLine(options, std::move(now).value(), signals.fd());
    }
  }
  if (!status) Fail(status.error());
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
