// Text whose bytes come from outside, as names of files and kernels: what in it is UTF-8, and what a person can be shown.
// Plain functions without memory of their own, also for what loads into other programs; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cupola {

/// The number of bytes of the UTF-8 sequence with which `text`, which is not empty, begins, and its code point; 0 if there
/// is none (RFC 3629).
constexpr size_t DecodeUtf8(std::string_view text, uint32_t* point) {
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

/// Whether the character can be seen, or is a space: it is neither a control character, nor an invisible one that changes
/// how others are shown, above all the direction of writing (Unicode, general categories Cc and Cf).
constexpr bool IsVisible(uint32_t point) {
  const bool is_control = point < 0x20 || (point >= 0x7F && point < 0xA0);
  const bool is_format = point == 0xAD || (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
                         (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF;
  return !is_control && !is_format;
}

}  // namespace cupola
