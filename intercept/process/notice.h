// The library's log messages, on the program's standard error. Each is one line, written by one write(2),
// and only while descriptor 2 is the file that it was when the program started (base/standard_error.h).
// CUPOLA_LOG sets the level (off, error, warn, info, debug; default warn). No allocation, no lock; any
// thread.
#pragma once

#include <atomic>
#include <initializer_list>
#include <string_view>

namespace cupola::intercept {

enum class Level { kOff, kError, kWarn, kInfo, kDebug };

/// Writes "cupola: <parts>\n" if CUPOLA_LOG asks for `level`. Lines over 1,000 bytes are cut. Not for
/// the launch path: it reads the environment. Keeps errno.
void Say(Level level, std::initializer_list<std::string_view> parts) noexcept;

/// Like Say, but only the first call for each `said` flag writes.
void SayOnce(std::atomic_flag& said, Level level,
             std::initializer_list<std::string_view> parts) noexcept;

/// A number as decimal digits, as a part of a message.
class Decimal {
 public:
  explicit Decimal(unsigned long long value) noexcept;
  operator std::string_view() const noexcept { return {first_, end_}; }  // NOLINT: used as a part

 private:
  char digits_[20];
  const char* first_;
  const char* end_;
};

}  // namespace cupola::intercept
