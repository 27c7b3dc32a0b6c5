#include "sched/daemon/rule_pattern.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace cupola::sched {
namespace {

constexpr size_t kNone = std::string::npos;
constexpr std::array<std::string_view, 12> kClasses = {"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                                                       "lower", "print", "punct", "space", "upper", "xdigit"};

/// Returns the position behind the "]" of the bracket expression that begins at `at`. kNone: `why` says what is wrong
/// with it.
size_t BracketEnd(const std::string& pattern, size_t at, std::string& why) {
  const size_t begin = at++;
  if (at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^')) ++at;
  const size_t first = at;
  char before = '\0';  // the character that a range may begin with
  while (at < pattern.size()) {
    if (pattern[at] == ']' && at > first) return at + 1;
    if (pattern[at] == '[' && at + 1 < pattern.size() && std::string_view(":.=").find(pattern[at + 1]) != kNone) {
      const char kind = pattern[at + 1];
      const size_t end = pattern.find(std::string{kind, ']'}, at + 2);
      if (end == kNone) break;
      const std::string name = pattern.substr(at + 2, end - at - 2);
      if (kind == ':' && std::find(kClasses.begin(), kClasses.end(), name) == kClasses.end()) {
        why = fmt::format("\"[:{}:]\" is no class of characters", name);
        return kNone;
      }
      at = end + 2;
      before = '\0';
      continue;
    }
    const bool is_range = pattern[at] == '-' && before != '\0' && at + 1 < pattern.size() && pattern[at + 1] != ']';
    if (is_range) ++at;
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    if (is_range && static_cast<unsigned char>(pattern[at]) < static_cast<unsigned char>(before)) {
      why = fmt::format("the range \"{}-{}\" holds nothing", before, pattern[at]);
      return kNone;
    }
    before = is_range ? '\0' : pattern[at];
    ++at;
  }
  why = fmt::format("\"{}\" has no \"]\" at its end (for a \"[\" itself write \"[[]\")", pattern.substr(begin));
  return kNone;
}

/// Calls `see` with each element of a pattern without errors: a character, or '?', '*' or '[' with `is_special`.
template <typename See>
void ForEachElement(const std::string& pattern, See see) {
  std::string why;
  for (size_t at = 0; at < pattern.size();) {
    const char c = pattern[at];
    if (c == '[') {
      const size_t end = BracketEnd(pattern, at, why);
      see(c, true);
      at = end == kNone ? pattern.size() : end;
    } else if (c == '\\' && at + 1 < pattern.size()) {
      see(pattern[at + 1], false);
      at += 2;
    } else {
      see(c, c == '?' || c == '*');
      ++at;
    }
  }
}

}  // namespace

std::string WhyBadPattern(const std::string& pattern) {
  if (pattern.empty()) return "it is empty (leave the key out where anything will do)";
  std::string why;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '[') {
      at = BracketEnd(pattern, at, why);
      if (at == kNone) return why;
    } else if (pattern[at] == '\\') {
      if (at + 1 == pattern.size()) return "there is nothing behind the \"\\\" at its end";
      at += 2;
    } else {
      ++at;
    }
  }
  return "";
}

size_t ShortestFit(const std::string& pattern) {
  size_t bytes = 0;
  ForEachElement(pattern, [&](char c, bool is_special) { bytes += is_special && c == '*' ? 0 : 1; });
  return bytes;
}

bool IsPlainText(const std::string& pattern) {
  bool is_plain = true;
  ForEachElement(pattern, [&](char, bool is_special) { is_plain = is_plain && !is_special; });
  return is_plain;
}

std::string WhyFitsNoPath(const std::string& pattern) {
  std::string text;  // special elements stand as NUL, which no path has
  ForEachElement(pattern, [&](char c, bool is_special) { text += is_special ? '\0' : c; });
  if (text.empty()) return "";
  if (text.front() != '/' && text.front() != '\0') {
    return "paths begin with \"/\" (where any folder will do, begin with \"*/\")";
  }
  if (text.back() == '/') return "no path of a file ends with \"/\"";
  for (const std::string_view part : {"//", "/./", "/../"}) {
    if (text.find(part) != kNone) return fmt::format("no path has \"{}\" in it", part);
  }
  return "";
}

}  // namespace cupola::sched
