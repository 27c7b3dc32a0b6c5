#include "cli/help_formatter.h"

#include <algorithm>
#include <cctype>

namespace cupola {
namespace {

/// Whether the line begins with a heading of one or two words and a colon: "Usage:", "Exit codes:".
bool BeginsParagraph(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon > 14 || std::isupper(static_cast<unsigned char>(line[0])) == 0) return false;
  return std::ranges::count(line.substr(0, colon), ' ') <= 1;
}

/// Where a broken line goes on.
size_t HangingIndent(std::string_view line, size_t columns) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", begin);
  const size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (second != std::string_view::npos && second < columns * 3 / 4) return second;
  return begin == 0 || begin > columns / 4 ? begin : begin + 2;
}

}  // namespace

std::string BreakLine(std::string_view line, size_t indent, size_t columns) {
  std::string out;
  size_t before = 0;  // spaces that are put before the text of the line that is being made
  while (before + line.size() > columns) {
    const size_t room = columns - before;
    const size_t text = std::min(line.find_first_not_of(' ', out.empty() ? indent : 0), line.size());
    size_t cut = line.rfind(' ', room);
    if (cut == std::string_view::npos || cut <= text) cut = line.find(' ', std::max(room, text));
    const size_t next = cut == std::string_view::npos ? cut : line.find_first_not_of(' ', cut);
    if (next == std::string_view::npos) break;
    out.append(before, ' ').append(line.substr(0, line.find_last_not_of(' ', cut) + 1)).append("\n");
    line.remove_prefix(next);
    before = indent;
  }
  return out.append(before, ' ').append(line).append("\n");
}

std::string FillHelp(std::string_view text, size_t columns) {
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += BreakLine(paragraph, HangingIndent(paragraph, columns), columns);
    paragraph.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == ' ') {
      end_paragraph();
      out += line.empty() ? "\n" : BreakLine(line, HangingIndent(line, columns), columns);
      continue;
    }
    if (BeginsParagraph(line)) end_paragraph();
    if (!paragraph.empty()) paragraph += ' ';
    paragraph += line;
    if (line.find("  ") != std::string_view::npos) end_paragraph();  // a line of a table
  }
  end_paragraph();
  return out;
}

}  // namespace cupola
