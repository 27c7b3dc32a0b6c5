#include "cli/terminal_text.h"

#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <string_view>

#include <langinfo.h>

namespace cupola {
namespace {

bool IsUtf8() { return std::string_view(nl_langinfo(CODESET)) == "UTF-8"; }

/// The whole line as wide characters.
std::wstring Widen(const std::string& line) {
  std::wstring wide;
  const bool is_utf8 = IsUtf8();
  std::mbstate_t state{};
  for (size_t at = 0; at < line.size();) {
    const auto byte = static_cast<unsigned char>(line[at]);
    if (byte < 0x80) {
      wide += static_cast<wchar_t>(byte);
      ++at;
      continue;
    }
    wchar_t character = L'?';
    const size_t bytes = is_utf8 ? std::mbrtowc(&character, line.data() + at, line.size() - at, &state) : 0;
    if (bytes == 0 || bytes > line.size() - at) {  // not UTF-8, or the locale is not: go to the next character
      character = L'?';
      state = {};
      do {
        ++at;
      } while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80);
    } else {
      at += bytes;
    }
    wide += wcwidth(character) < 0 ? L'?' : character;
  }
  return wide;
}

}  // namespace

std::wstring FitToColumns(const std::string& line, size_t columns) {
  std::wstring wide = Widen(line);
  size_t used = 0, count = 0;
  for (; count < wide.size(); ++count) {
    used += static_cast<size_t>(wcwidth(wide[count]) < 0 ? 1 : wcwidth(wide[count]));
    if (used > columns) break;
  }
  wide.resize(count);
  return wide;
}

std::string FitToColumnsAsBytes(const std::string& line, size_t columns) {
  std::string bytes;
  std::mbstate_t state{};
  for (const wchar_t character : FitToColumns(line, columns)) {
    std::string one(MB_CUR_MAX, '\0');
    const size_t size = std::wcrtomb(one.data(), character, &state);
    bytes += size == static_cast<size_t>(-1) ? "?" : one.substr(0, size);
  }
  return bytes;
}

}  // namespace cupola
