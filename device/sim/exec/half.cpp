#include "device/sim/exec/half.h"

namespace cupola::sim {
namespace {

struct Format {
  int mantissa_bits;  // number of stored bits
  int min_exponent;   // of the smallest normal value
  int max_exponent;
  uint16_t infinity;  // as bits
};

constexpr Format kHalf{10, -14, 15, 0x7C00};
constexpr Format kBfloat{7, -126, 127, 0x7F80};

uint16_t RoundTo(const Format& format, double value, Rounding rounding) {
  if (std::isnan(value)) return 0x7FFF;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value)) return sign | format.infinity;
  if (value == 0) return sign;
  int exponent = std::ilogb(value);
  if (exponent < format.min_exponent) exponent = format.min_exponent;
  const int quantum = exponent - format.mantissa_bits;
  const double rounded = std::ldexp(RoundInteger(std::ldexp(value, -quantum), rounding), quantum);
  const double magnitude = std::fabs(rounded);
  const double limit = std::ldexp(2.0, format.max_exponent);
  if (magnitude >= limit) {
    const bool stay = rounding == Rounding::kZero || (rounding == Rounding::kDown && sign == 0) ||
                      (rounding == Rounding::kUp && sign != 0);
    return sign | static_cast<uint16_t>(stay ? format.infinity - 1 : format.infinity);
  }
  if (magnitude == 0) return sign;
  const int top = std::ilogb(magnitude);
  if (top < format.min_exponent) {
    const int lowest = format.min_exponent - format.mantissa_bits;
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, -lowest));
  }
  const uint32_t biased = static_cast<uint32_t>(top - format.min_exponent + 1);
  const uint32_t mantissa =
      static_cast<uint32_t>(std::ldexp(magnitude, format.mantissa_bits - top)) &
      ((1u << format.mantissa_bits) - 1);
  return sign | static_cast<uint16_t>(biased << format.mantissa_bits | mantissa);
}

}  // namespace

double RoundInteger(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    case Rounding::kNearestAway:
      return std::round(value);
    case Rounding::kNearest:
      break;
  }
  const double floor = std::floor(value);
  const double rest = value - floor;
  double result = floor;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(floor, 2.0) != 0)) result = floor + 1;
  return std::copysign(result, value);
}

uint16_t RoundToHalf(double value, Rounding rounding) { return RoundTo(kHalf, value, rounding); }
uint16_t RoundToBfloat(double value, Rounding rounding) {
  return RoundTo(kBfloat, value, rounding);
}

}  // namespace cupola::sim
