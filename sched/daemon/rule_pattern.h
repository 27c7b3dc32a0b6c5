// The patterns of rules, which are those of fnmatch(3): what is wrong with a pattern, and what it can match. Plain
// functions; any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cupola::sched {

/// Why fnmatch(3) would not read the pattern as its writer meant it: a bracket that is not closed, an empty range, an
/// unknown class, or a backslash at the end. "" = nothing is wrong with the pattern.
std::string WhyBadPattern(const std::string& pattern);

/// Length in bytes of the shortest text that the pattern can match. Only for a pattern without errors.
size_t ShortestFit(const std::string& pattern);

/// Whether the pattern has no special characters, so that it matches only its own text.
bool IsPlainText(const std::string& pattern);

/// Why no path can match the pattern, where the pattern is compared with whole paths. Those are absolute and have no
/// empty part, "." or "..". "" = some path can match.
std::string WhyFitsNoPath(const std::string& pattern);

}  // namespace cupola::sched
