// The log of the command-line tools and daemons: spdlog to standard error, at the level that CUPOLA_LOG names. The
// preloaded library does not use it: in another program's process Cupola says only what intercept/process/notice.h lets
// it say.
#pragma once

#include <spdlog/spdlog.h>

namespace cupola {

inline constexpr char kLogPattern[] = "cupola: %^%l%$: %v";

/// Sends spdlog's default logger to standard error with Cupola's pattern. cli/main.cpp calls it once, before there are
/// other threads; from then on any thread may log.
void InitLog();

}  // namespace cupola
