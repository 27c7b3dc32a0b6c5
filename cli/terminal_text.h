// Text for a terminal: only characters that it can show, and no more columns than it has. The result depends on the
// locale that the program has set (setlocale(3), LC_CTYPE). Any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cupola {

/// The part of a line that fits into `columns`, as wide characters. The line must be UTF-8 and Printable (commands.h).
/// If the locale does not use UTF-8, each character that is not ASCII becomes "?".
std::wstring FitToColumns(const std::string& line, size_t columns);

/// The same, encoded as the locale does.
std::string FitToColumnsAsBytes(const std::string& line, size_t columns);

}  // namespace cupola
