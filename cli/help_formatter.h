// The layout of help texts: `--help` of every command fits into 80 columns. main.cpp gives the formatter to the command,
// from which its subcommands have it; CLI11 calls it on the main thread. settings_print.cpp breaks its lines with
// BreakLine. The functions are pure.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace cupola {

inline constexpr size_t kHelpColumns = 80;

/// Fills a help text to lines of at most `columns` characters. Lines that begin in the first column and follow each other
/// are a paragraph, whose words are put into as few lines as hold them; "Usage:", "Exit codes:" and the like begin one.
/// Any other line stays a line of its own. Where it is too long it is broken between words, and goes on below its
/// second column, that is, where text begins behind two spaces or more; where it has none, two characters to the right
/// of where it begins. A word longer than the line stays whole.
std::string FillHelp(std::string_view text, size_t columns);

/// The line and a newline, broken between words where it is longer than `columns`. What is broken off goes on in the column
/// `indent`; before that column there is no break. A word longer than a line stays whole.
std::string BreakLine(std::string_view line, size_t indent, size_t columns);

/// Prints help as CLI11 does, filled to kHelpColumns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return FillHelp(CLI::Formatter::make_help(app, std::move(name), mode), kHelpColumns);
  }
};

}  // namespace cupola
