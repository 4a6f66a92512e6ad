#pragma once
// Logging: one line per event to standard error, "time level daemon| text". Call InitLog once in main.
//   LOG_INFO("turn granted token={} tenant={}", token, name);

#include <spdlog/spdlog.h>

#include <string>

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

namespace tandem {

// Sets the process-wide logger: name of the daemon in each line, level "debug", "info", "warn" or "error".
void InitLog(const std::string& daemon, const std::string& level = "info");

}  // namespace tandem
