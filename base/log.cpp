#include "base/log.h"

#include <cstdlib>

#include <spdlog/sinks/stdout_color_sinks.h>

namespace cupola {

void InitLog() {
  auto logger = std::make_shared<spdlog::logger>(
      "cupola", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern(kLogPattern);
  const char* level = std::getenv("CUPOLA_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace cupola
