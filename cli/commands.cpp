#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/utf8.h"

namespace cupola {

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t bytes = DecodeUtf8(text, &point);
    const size_t taken = bytes == 0 ? 1 : bytes;
    if (bytes == 0 || (!IsVisible(point) && point != '\n' && point != '\t')) {
      for (const char byte : text.substr(0, taken)) shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    } else {
      shown += text.substr(0, taken);
    }
    text.remove_prefix(taken);
  }
  return shown;
}

// Uses fputs, because fmt::print throws when standard error is closed.
void Say(const std::string& text) { std::fputs(("cupola: " + Printable(text) + "\n").c_str(), stderr); }

void PrintError(const Error& error) { Say(error.ToString()); }

void Fail(const Error& error, int code) {
  PrintError(error);
  throw CLI::RuntimeError(code);
}

std::string WhyNotUsed(settings::TextSetting variable) {
  const char* value = settings::TextIfAny(variable);
  if (value == nullptr || *value == '/') return "";
  return fmt::format("{}={} is not an absolute path", variable.name, value);
}

void RequireAbsolute(settings::TextSetting variable) {
  if (std::string why = WhyNotUsed(variable); !why.empty()) {
    Fail(MakeError(ErrorCode::kInvalidArgument, std::move(why)), kExitUsage);
  }
}

}  // namespace cupola
