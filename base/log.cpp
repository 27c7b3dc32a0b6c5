#include "base/log.h"

#include <string>

#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/settings/variables.h"

namespace cupola {

void InitLog() {
  auto logger = std::make_shared<spdlog::logger>(
      "cupola", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern(kLogPattern);
  logger->set_level(spdlog::level::from_str(std::string(settings::Word("CUPOLA_LOG"))));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace cupola
