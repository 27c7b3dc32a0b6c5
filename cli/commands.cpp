#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace cupola {
namespace {

/// The number of bytes of the UTF-8 sequence with which `text` begins, and its code point; 0 if there is none (RFC
/// 3629).
size_t DecodeUtf8(std::string_view text, uint32_t* point) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t first = byte(0);
  const size_t bytes = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  *point = bytes == 1 ? first : first & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    *point = *point << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = *point >= 0xD800 && *point < 0xE000;
  return *point < kLeast[bytes] || *point > 0x10FFFF || is_surrogate ? 0 : bytes;
}

/// Whether the character is invisible and changes how others are shown, above all the direction of writing (Unicode,
/// general category Cf).
bool IsFormat(uint32_t point) {
  return point == 0xAD || (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t bytes = DecodeUtf8(text, &point);
    const bool is_control = (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7F && point < 0xA0);
    const size_t taken = bytes == 0 ? 1 : bytes;
    if (bytes == 0 || is_control || IsFormat(point)) {
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
