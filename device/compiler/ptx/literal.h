// Values of PTX literals [4.4]. Internal to this folder. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cupola::ptx {

/// A value of a constant expression [4.4.5]: 64 bits of type .s64 or .u64.
struct ConstantValue {
  uint64_t bits = 0;
  bool is_unsigned = false;
};

/// The value of "12", "0x1fU", "017" or "0b11"; std::nullopt when malformed or wider than 64 bits.
std::optional<ConstantValue> IntegerLiteral(std::string_view text);

/// The bits of a float literal and their width (32 for 0f, else 64).
struct FloatValue {
  uint64_t bits = 0;
  uint8_t width = 64;
};
/// std::nullopt when malformed.
std::optional<FloatValue> FloatLiteral(std::string_view text);

/// a op b as [4.4.5] defines it; std::nullopt for a division by zero or an unknown operator.
std::optional<ConstantValue> Fold(std::string_view op, ConstantValue a, ConstantValue b);

}  // namespace cupola::ptx
