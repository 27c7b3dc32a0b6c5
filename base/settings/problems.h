// What is wrong with the variables of an environment: names that are not in the table, with the nearest that is, and
// values that are not allowed. The library, the commands and the simulated device each say it once, when they start, in
// the way in which they say everything. Pure functions without allocation; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/settings/setting.h"

namespace cupola::settings {

/// The row of that name; null: there is none.
const Setting* Find(std::string_view name);

/// Of the rows that are for users, the one whose name is nearest by Distance; null where none is near, that is, where
/// more than a third of the letters differ. Only variables are near to a variable, and only keys of the same section of
/// the configuration to a key; CUPOLA_ and the section do not count as letters.
const Setting* Nearest(std::string_view name);

/// How many letters must be put in, left out, replaced or swapped with their neighbour to make one name of the other
/// (optimal string alignment). Names longer than 63 letters count as their first 63.
size_t Distance(std::string_view a, std::string_view b);

/// What a value of this setting must be: "a whole number from 1 to 1024", "auto, always or off". Returns the length
/// without the final zero; what does not fit is cut.
size_t ExpectedText(const Setting& setting, char* text, size_t bytes);

enum class Problem : uint8_t { kNone, kUnknown, kBadValue };

/// Judges one string of the environment, NAME=value. `parts` (of Scope): values of other parts' settings are not judged,
/// names are in any case. Where there is a problem, `line` gets a sentence that says what is wrong and what is done or
/// to be done, and ends with a zero; at most `bytes`.
Problem Judge(const char* entry, uint8_t parts, char* line, size_t bytes);

/// Calls `say(problem, line)` for each problem of this process's environment.
template <typename Say>
void ForEachProblem(char* const* environment, uint8_t parts, Say say) {
  char line[512];
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const Problem problem = Judge(*environment, parts, line, sizeof(line));
    if (problem != Problem::kNone) say(problem, static_cast<const char*>(line));
  }
}

}  // namespace cupola::settings
