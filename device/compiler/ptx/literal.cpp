#include "device/compiler/ptx/literal.h"

#include <bit>
#include <charconv>

namespace cupola::ptx {

std::optional<ConstantValue> IntegerLiteral(std::string_view text) {
  ConstantValue value;
  if (!text.empty() && text.back() == 'U') {
    value.is_unsigned = true;
    text.remove_suffix(1);
  }
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char second = text[1];
    base = second == 'x' || second == 'X' ? 16 : second == 'b' || second == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value.bits, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  // A literal that does not fit .s64 is .u64.
  if (value.bits > static_cast<uint64_t>(INT64_MAX)) value.is_unsigned = true;
  return value;
}

std::optional<FloatValue> FloatLiteral(std::string_view text) {
  FloatValue value;
  if (text.size() > 2 && text[0] == '0') {
    const char second = text[1];
    const bool single = second == 'f' || second == 'F';
    if (single || second == 'd' || second == 'D') {
      value.width = single ? 32 : 64;
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + 2, end, value.bits, 16);
      if (error != std::errc() || stop != end) return std::nullopt;
      return value;
    }
  }
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) return std::nullopt;
  value.bits = std::bit_cast<uint64_t>(number);
  return value;
}

namespace {

std::optional<uint64_t> Divide(ConstantValue a, ConstantValue b, bool is_unsigned, bool remainder) {
  if (b.bits == 0) return std::nullopt;
  if (is_unsigned) return remainder ? a.bits % b.bits : a.bits / b.bits;
  if (b.bits == UINT64_MAX) return remainder ? 0 : 0 - a.bits;  // INT64_MIN / -1 wraps
  const int64_t x = static_cast<int64_t>(a.bits), y = static_cast<int64_t>(b.bits);
  return static_cast<uint64_t>(remainder ? x % y : x / y);
}

std::optional<bool> Compare(std::string_view op, ConstantValue a, ConstantValue b,
                            bool is_unsigned) {
  const int64_t x = static_cast<int64_t>(a.bits), y = static_cast<int64_t>(b.bits);
  const bool less = is_unsigned ? a.bits < b.bits : x < y;
  const bool equal = a.bits == b.bits;
  if (op == "<") return less;
  if (op == "<=") return less || equal;
  if (op == ">") return !less && !equal;
  if (op == ">=") return !less;
  if (op == "==") return equal;
  if (op == "!=") return !equal;
  if (op == "&&") return a.bits != 0 && b.bits != 0;
  if (op == "||") return a.bits != 0 || b.bits != 0;
  return std::nullopt;
}

}  // namespace

std::optional<ConstantValue> Fold(std::string_view op, ConstantValue a, ConstantValue b) {
  const bool is_unsigned = a.is_unsigned || b.is_unsigned;
  if (op == "<<" || op == ">>") {
    const uint64_t count = b.bits;
    const bool negative = !a.is_unsigned && static_cast<int64_t>(a.bits) < 0;
    uint64_t bits = 0;
    if (op == "<<") {
      bits = count > 63 ? 0 : a.bits << count;
    } else if (count > 63) {
      bits = negative ? UINT64_MAX : 0;
    } else {
      bits =
          negative ? static_cast<uint64_t>(static_cast<int64_t>(a.bits) >> count) : a.bits >> count;
    }
    return ConstantValue{bits, a.is_unsigned};
  }
  if (op == "+") return ConstantValue{a.bits + b.bits, is_unsigned};
  if (op == "-") return ConstantValue{a.bits - b.bits, is_unsigned};
  if (op == "*") return ConstantValue{a.bits * b.bits, is_unsigned};
  if (op == "&") return ConstantValue{a.bits & b.bits, is_unsigned};
  if (op == "|") return ConstantValue{a.bits | b.bits, is_unsigned};
  if (op == "^") return ConstantValue{a.bits ^ b.bits, is_unsigned};
  if (op == "/" || op == "%") {
    const std::optional<uint64_t> bits = Divide(a, b, is_unsigned, op == "%");
    if (!bits) return std::nullopt;
    return ConstantValue{*bits, is_unsigned};
  }
  const std::optional<bool> truth = Compare(op, a, b, is_unsigned);
  if (!truth) return std::nullopt;
  return ConstantValue{*truth ? 1u : 0u, false};
}

}  // namespace cupola::ptx
