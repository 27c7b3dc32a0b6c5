// TerminalScreen: shows lines on the whole terminal, by ncurses. `cupola top` creates one; there may be only one at a
// time, used by one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cupola {

enum class TerminalKey { kNone, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kQuit };

class TerminalScreen {
 public:
  /// Takes over the terminal at standard output; what it shows comes back at the end. Keys come from standard input, if
  /// that is a terminal. nullptr when this type of terminal (TERM) is not known here, or cannot move its cursor.
  static std::unique_ptr<TerminalScreen> Open();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;
  /// Gives the terminal back as it was.
  ~TerminalScreen();

  size_t rows() const;
  size_t columns() const;
  /// Shows as many lines as fit, from the first one on.
  void Show(const std::vector<std::string>& lines);
  /// The next typed key that has a meaning here; kNone if there is none. Does not wait.
  TerminalKey ReadKey();

 private:
  explicit TerminalScreen(bool has_keys) : has_keys_(has_keys) {}
  bool has_keys_;
};

}  // namespace cupola
