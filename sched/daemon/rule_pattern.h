// The patterns of rules, those of fnmatch(3): what is wrong with one, and what it can fit. Plain functions, any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cupola::sched {

/// Why fnmatch(3) would not read the pattern as its writer meant it: a bracket that is not closed, a range that holds
/// nothing, a class that is none, a backslash with nothing behind it. "" = there is nothing wrong with it.
std::string WhyBadPattern(const std::string& pattern);

/// Bytes of the shortest text that the pattern can fit. Of a pattern that is not bad.
size_t ShortestFit(const std::string& pattern);

/// Whether it has nothing that stands for something else: it fits itself alone.
bool IsPlainText(const std::string& pattern);

/// Why no path can fit the pattern, where it is compared with whole paths, which are absolute and have no empty
/// part, "." or ".."; "" = some can.
std::string WhyFitsNoPath(const std::string& pattern);

}  // namespace cupola::sched
