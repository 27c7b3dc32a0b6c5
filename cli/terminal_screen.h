// TerminalScreen: the whole terminal as a place for lines, by ncurses. One at a time; one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cupola {

enum class TerminalKey { kNone, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kQuit };

class TerminalScreen {
 public:
  /// Takes the terminal at standard output, which keeps what it shows for later. Keys come from standard input, where
  /// that is a terminal. nullptr: this type of terminal (TERM) is not known here, or cannot move its cursor.
  static std::unique_ptr<TerminalScreen> Open();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;
  /// Gives it back as it was.
  ~TerminalScreen();

  size_t rows() const;
  size_t columns() const;
  /// Shows the lines that fit, from the first, and no more.
  void Show(const std::vector<std::string>& lines);
  /// The next key that was typed and means something. Does not wait.
  TerminalKey ReadKey();

 private:
  explicit TerminalScreen(bool has_keys) : has_keys_(has_keys) {}
  bool has_keys_;
};

}  // namespace cupola
