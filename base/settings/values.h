// How the values of settings are read from text: of the environment (variables.h, problems.h) and of the table's
// defaults. Pure functions without allocation, also for constant expressions, so that a default that cannot be read is
// found by the compiler. They call nothing that may throw (such as
// string_view::substr), which would put the C++ library's exceptions into the preloaded library, and nothing of the C
// library that the door may not need (string_view::find calls memchr). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/settings/setting.h"

namespace cupola::settings {

/// The whole number in `text`: decimal digits, after a minus sign where it is negative. Nothing where there is anything
/// else (a sign, a space, a unit), or the number does not fit.
constexpr std::optional<int64_t> ParseNumber(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || number > (INT64_MAX - (c - '0')) / 10) return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return is_negative ? -number : number;
}

/// As ParseNumber; nothing where the number is not from `least` to `most`, too.
constexpr std::optional<int64_t> ParseNumber(std::string_view text, int64_t least, int64_t most) {
  const std::optional<int64_t> number = ParseNumber(text);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

/// "1" is true and "0" is false; nothing where there is anything else.
constexpr std::optional<bool> ParseFlag(std::string_view text) {
  if (text == "1") return true;
  return text == "0" ? std::optional<bool>(false) : std::nullopt;
}

/// Calls `use` with each word of a list that is separated by ", ".
template <typename Use>
constexpr void ForEachWord(std::string_view words, Use use) {
  while (!words.empty()) {
    size_t end = 0;
    while (end < words.size() && words[end] != ',') ++end;
    use(std::string_view(words.data(), end));
    words.remove_prefix(end == words.size() ? end : end + 2);
  }
}

/// Whether `word` is one of the words of such a list.
constexpr bool IsWordOf(std::string_view words, std::string_view word) {
  bool is_one = false;
  ForEachWord(words, [&](std::string_view each) { is_one = is_one || each == word; });
  return is_one;
}

/// Whether `value` may stand in the environment for this setting. An empty value is as if the variable were not set.
constexpr bool IsAllowed(const Setting& setting, std::string_view value) {
  if (value.empty()) return true;
  switch (setting.type) {
    case Type::kFlag: return ParseFlag(value).has_value();
    case Type::kNumber: return ParseNumber(value, setting.least, setting.most).has_value();
    case Type::kWord: return IsWordOf(setting.allowed, value);
    case Type::kAbsolutePath: return value.front() == '/';
    case Type::kWordOrPath: return value.front() == '/' || IsWordOf(setting.allowed, value);
    case Type::kFraction:  // only keys of the configuration, which TOML's parser reads
    case Type::kText: return true;
  }
  return true;
}

}  // namespace cupola::settings
