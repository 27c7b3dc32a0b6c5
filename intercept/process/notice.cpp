#include "intercept/process/notice.h"

#include <cstring>

#include "base/settings/variables.h"
#include "base/standard_error.h"

namespace cupola::intercept {
namespace {

Level AskedLevel() {
  const std::string_view name = settings::Word("CUPOLA_LOG");
  if (name == "off" || name == "critical") return Level::kOff;
  if (name == "err" || name == "error") return Level::kError;
  if (name == "info") return Level::kInfo;
  if (name == "debug" || name == "trace") return Level::kDebug;
  return Level::kWarn;
}

}  // namespace

void Say(Level level, std::initializer_list<std::string_view> parts) noexcept {
  if (level == Level::kOff || level > AskedLevel()) return;
  char line[1024];
  size_t used = 0;
  const auto append = [&](std::string_view part) {
    const size_t bytes =
        part.size() < sizeof(line) - 1 - used ? part.size() : sizeof(line) - 1 - used;
    memcpy(line + used, part.data(), bytes);
    used += bytes;
  };
  append("cupola: ");
  for (std::string_view part : parts) append(part);
  line[used++] = '\n';
  WriteToStandardError(line, used);
}

void SayOnce(std::atomic_flag& said, Level level,
             std::initializer_list<std::string_view> parts) noexcept {
  if (!said.test_and_set(std::memory_order_relaxed)) Say(level, parts);
}

Decimal::Decimal(unsigned long long value) noexcept : end_(digits_ + sizeof(digits_)) {
  char* at = digits_ + sizeof(digits_);
  do {
    *--at = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  first_ = at;
}

}  // namespace cupola::intercept
