#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace tandem {

void InitLog(const std::string& daemon, const std::string& level) {
  auto logger = spdlog::stderr_logger_mt(daemon);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %n| %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace tandem
