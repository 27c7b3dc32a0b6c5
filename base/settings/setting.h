// What is known of one setting: a row of the table in base/settings/table.h. A setting is an environment variable
// whose name begins with CUPOLA_, or a key of the configuration of `cupola serve`, named by its section and its key
// (policy.quantum_us). Plain constants; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace cupola::settings {

/// What a value must look like.
enum class Type : uint8_t {
  kFlag,          ///< 1 or 0; in a configuration, true or false
  kNumber,        ///< a whole number from `least` to `most`, in decimal digits
  kFraction,      ///< a number above 0 and at most 1
  kWord,          ///< one of the words in `allowed`
  kAbsolutePath,  ///< a path that begins with a slash
  kWordOrPath,    ///< one of the words in `allowed`, or a path that begins with a slash
  kText,          ///< any text; `allowed` says what it means
};

/// For whom a setting is.
enum class Use : uint8_t {
  kUser,      ///< anybody who runs Cupola
  kInternal,  ///< a command of Cupola hands it over to the library
  kTests,     ///< only tests, benchmarks and scripts of the source tree read it
};

/// Which parts read a setting; a set of bits.
enum Scope : uint8_t {
  kLibrary = 1,    ///< the preloaded library
  kCommand = 2,    ///< the command `cupola`
  kSimulated = 4,  ///< the driver of the simulated device
  kArbiter = 8,    ///< `cupola serve`, from its configuration
  kTree = 16,      ///< tests and scripts of the source tree
};

struct Setting {
  const char* name = "";
  Type type = Type::kText;
  Use use = Use::kUser;
  uint8_t scopes = 0;  ///< of Scope
  /// The value in force where none is set: for a flag, a number, a fraction, a word or a kWordOrPath a value of that type, or "" if
  /// there is no single one. For the other types it is only for people.
  const char* fallback = "";
  bool may_be_empty = false;  ///< kText: set to nothing is another value than not set
  int64_t least = 0;
  int64_t most = UINT32_MAX;
  const char* unit = "";     ///< of a number
  const char* allowed = "";  ///< kWord, kWordOrPath: the words, separated by ", "; other types: what is allowed, for people
  const char* meaning = "";  ///< one sentence

  constexpr bool IsVariable() const { return std::string_view(name).starts_with("CUPOLA_"); }
  constexpr bool IsFor(uint8_t parts) const { return (scopes & parts) != 0; }
};

}  // namespace cupola::settings
