#include "cli/terminal_screen.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include <sys/ioctl.h>
#include <unistd.h>

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>
#include <term.h>
// term.h defines these two words as macros.
#undef columns
#undef lines

#include "cli/terminal_text.h"

namespace cupola {
namespace {

SCREEN* screen = nullptr;
constexpr const char* kNeeded[] = {"cup", "clear"};  // terminfo(5): moves the cursor, clears the screen

/// Whether this type of terminal is known and can move its cursor. This is checked first, because newterm leaks memory
/// for a type that is not known.
bool CanMove() {
  int known = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &known) != OK) return false;
  const bool can = std::all_of(std::begin(kNeeded), std::end(kNeeded), [](const char* ability) {
    const char* text = tigetstr(ability);
    return text != nullptr && text != reinterpret_cast<const char*>(-1);
  });
  del_curterm(cur_term);
  return can;
}

}  // namespace

std::unique_ptr<TerminalScreen> TerminalScreen::Open() {
  if (!CanMove()) return nullptr;
  screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) return nullptr;
  const bool has_keys = isatty(STDIN_FILENO) != 0;
  if (has_keys) {
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
  }
  curs_set(0);
  return std::unique_ptr<TerminalScreen>(new TerminalScreen(has_keys));
}

TerminalScreen::~TerminalScreen() {
  endwin();
  delscreen(screen);
  screen = nullptr;
}

size_t TerminalScreen::rows() const { return static_cast<size_t>(std::max(getmaxy(stdscr), 1)); }
size_t TerminalScreen::columns() const { return static_cast<size_t>(std::max(getmaxx(stdscr), 1)); }

void TerminalScreen::Show(const std::vector<std::string>& lines) {
  werase(stdscr);
  for (size_t row = 0; row < std::min(lines.size(), rows()); ++row) {
    const std::wstring text = FitToColumns(lines[row], columns());
    mvwaddnwstr(stdscr, static_cast<int>(row), 0, text.c_str(), static_cast<int>(text.size()));
  }
  wrefresh(stdscr);
}

TerminalKey TerminalScreen::ReadKey() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0 &&
      is_term_resized(size.ws_row, size.ws_col)) {
    resizeterm(size.ws_row, size.ws_col);
  }
  for (;;) {
    switch (has_keys_ ? wgetch(stdscr) : ERR) {
      case ERR: return TerminalKey::kNone;
      case 'q':
      case 'Q': return TerminalKey::kQuit;
      case KEY_UP:
      case 'k': return TerminalKey::kUp;
      case KEY_DOWN:
      case 'j': return TerminalKey::kDown;
      case KEY_PPAGE: return TerminalKey::kPageUp;
      case KEY_NPAGE:
      case ' ': return TerminalKey::kPageDown;
      case KEY_HOME: return TerminalKey::kHome;
      case KEY_END: return TerminalKey::kEnd;
      case KEY_RESIZE: return TerminalKey::kNone;
      default: break;
    }
  }
}

}  // namespace cupola
