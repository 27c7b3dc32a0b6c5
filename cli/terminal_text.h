// Text for a terminal: what it can show, and no more columns than it has. Depends on the locale that the program has
// taken up (setlocale(3), LC_CTYPE); any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cupola {

/// As much of a line (UTF-8, of characters that can be printed: Printable in commands.h) as fits into so many columns,
/// as wide characters. Where the locale is not one of UTF-8, "?" stands for each character that is not ASCII.
std::wstring FitToColumns(const std::string& line, size_t columns);

/// The same in the locale's bytes.
std::string FitToColumnsAsBytes(const std::string& line, size_t columns);

}  // namespace cupola
