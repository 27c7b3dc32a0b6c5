// What the preloaded library says to its host's standard error: one line a time, by write(2), and only
// while descriptor 2 is the file that it was when the program started (base/standard_error.h);
// levels from CUPOLA_LOG (off, error, warn, info, debug; default warn). No allocation, no lock; any
// thread.
#pragma once

#include <atomic>
#include <initializer_list>
#include <string_view>

namespace cupola::intercept {

enum class Level { kOff, kError, kWarn, kInfo, kDebug };

/// Writes "cupola: <parts>\n" if `level` is asked for. Lines over 1,000 bytes are cut. Not for the
/// launch path: it reads the environment. Keeps errno.
void Say(Level level, std::initializer_list<std::string_view> parts) noexcept;

/// Like Say, once for each `said` flag.
void SayOnce(std::atomic_flag& said, Level level,
             std::initializer_list<std::string_view> parts) noexcept;

/// A number as decimal digits, for a part of a notice.
class Decimal {
 public:
  explicit Decimal(unsigned long long value) noexcept;
  operator std::string_view() const noexcept { return {first_, end_}; }  // NOLINT: a part

 private:
  char digits_[20];
  const char* first_;
  const char* end_;
};

}  // namespace cupola::intercept
