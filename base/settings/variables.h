// The only way to read an environment variable of Cupola: by the name that its row of the table has. A name that is not
// in the table, or is of another type, does not compile. A value that is not allowed counts as if the variable were not
// set; who starts (the library, a command, the simulated device) says so once (base/settings/problems.h).
//
// Everything is in this header, since it is read in objects that link nothing else of Cupola. Reading takes no lock and
// allocates nothing, but scans the environment: not for the launch path. Any thread; nobody may change the environment
// meanwhile, as for getenv(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/settings/table.h"
#include "base/settings/values.h"

namespace cupola::settings {

/// Not defined on purpose: a call of it in a constant expression is the compiler's error message.
void NoSuchSettingInTheTable();

consteval const Setting& RowOf(std::string_view name) {
  for (const Setting& setting : kTable) {
    if (setting.name == name) return setting;
  }
  NoSuchSettingInTheTable();
  return kTable[0];
}

/// The row of that name, if it is a variable of one of these types.
consteval const Setting& RowOf(std::string_view name, Type type, Type or_type) {
  const Setting& row = RowOf(name);
  if (!row.IsVariable() || (row.type != type && row.type != or_type)) NoSuchSettingInTheTable();
  return row;
}

struct NumberSetting {
  const char* name;
  int64_t fallback, least, most;
  consteval NumberSetting(const char* row)  // NOLINT: a name stands for its row
      : NumberSetting(RowOf(row, Type::kNumber, Type::kNumber)) {}
  consteval explicit NumberSetting(const Setting& row)
      : name(row.name), fallback(ParseNumber(row.fallback).value_or(0)), least(row.least), most(row.most) {}
};

struct FlagSetting {
  const char* name;
  bool fallback;
  consteval FlagSetting(const char* row) : FlagSetting(RowOf(row, Type::kFlag, Type::kFlag)) {}  // NOLINT: as above
  consteval explicit FlagSetting(const Setting& row)
      : name(row.name), fallback(ParseFlag(row.fallback).value_or(false)) {}
};

struct WordSetting {
  const char* name;
  const char* fallback;
  const char* words;
  consteval WordSetting(const char* row) : WordSetting(RowOf(row, Type::kWord, Type::kWord)) {}  // NOLINT: as above
  consteval explicit WordSetting(const Setting& row)
      : name(row.name), fallback(row.fallback), words(row.allowed) {}
};

struct WordOrPathSetting {
  const char* name;
  const char* fallback;
  const char* words;
  consteval WordOrPathSetting(const char* row)  // NOLINT: as above
      : WordOrPathSetting(RowOf(row, Type::kWordOrPath, Type::kWordOrPath)) {}
  consteval explicit WordOrPathSetting(const Setting& row)
      : name(row.name), fallback(row.fallback), words(row.allowed) {}
};

/// A variable whose text its reader judges itself: a path, or any text.
struct TextSetting {
  const char* name;
  consteval TextSetting(const char* row)  // NOLINT: as above
      : name(RowOf(row, Type::kText, Type::kAbsolutePath).name) {}
};

/// A key of the configuration, which its reader finds in a file.
struct ConfigSetting {
  const Setting* row;
  consteval ConfigSetting(const char* name) : row(&RowOf(name)) {  // NOLINT: as above
    if (row->IsVariable()) NoSuchSettingInTheTable();
  }
  /// The key without its section.
  constexpr std::string_view key() const {
    const std::string_view name = row->name;
    return name.substr(name.find('.') + 1);
  }
};

/// The number that a variable is set to; nothing where it is not set, or not to an allowed number.
inline std::optional<uint64_t> NumberIfSet(NumberSetting setting) {
  const char* const text = std::getenv(setting.name);
  if (text == nullptr) return std::nullopt;
  const std::optional<int64_t> number = ParseNumber(text, setting.least, setting.most);
  return number ? std::optional<uint64_t>(static_cast<uint64_t>(*number)) : std::nullopt;
}

inline uint64_t Number(NumberSetting setting) {
  return NumberIfSet(setting).value_or(static_cast<uint64_t>(setting.fallback));
}

inline bool Flag(FlagSetting setting) {
  const char* const text = std::getenv(setting.name);
  return text == nullptr ? setting.fallback : ParseFlag(text).value_or(setting.fallback);
}

/// One of the words that the row allows.
inline std::string_view Word(WordSetting setting) {
  const char* const text = std::getenv(setting.name);
  return text != nullptr && IsWordOf(setting.words, text) ? text : setting.fallback;
}

/// One of the words that the row allows, or an absolute path.
inline const char* WordOrPath(WordOrPathSetting setting) {
  const char* const text = std::getenv(setting.name);
  const bool is_allowed = text != nullptr && (*text == '/' || IsWordOf(setting.words, text));
  return is_allowed ? text : setting.fallback;
}

/// Null where the variable is not set. It may be set to "".
inline const char* Text(TextSetting setting) { return std::getenv(setting.name); }

/// Null where the variable is not set, or to "".
inline const char* TextIfAny(TextSetting setting) {
  const char* const text = std::getenv(setting.name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

/// As Text; null in a program that runs with other rights than its user's (secure_getenv(3)).
inline const char* TrustedText(TextSetting setting) { return secure_getenv(setting.name); }

/// The default of a number, for constants.
consteval uint64_t Fallback(NumberSetting setting) { return static_cast<uint64_t>(setting.fallback); }

/// The name itself, for who sets a variable for another process: one that is not in the table does not compile.
consteval const char* Name(std::string_view name) { return RowOf(name).name; }

}  // namespace cupola::settings
