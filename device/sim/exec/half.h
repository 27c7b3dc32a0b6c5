// f16 and bf16 values in software [PTX ISA 5.2.3]. Pure functions; any thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace cupola::sim {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

/// `value` rounded to an integer, as a double.
double RoundInteger(double value, Rounding rounding);

/// `value` rounded to f16 or bf16, as bits; NaN becomes 0x7FFF, as on a GPU.
uint16_t RoundToHalf(double value, Rounding rounding = Rounding::kNearest);
uint16_t RoundToBfloat(double value, Rounding rounding = Rounding::kNearest);

inline float BfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// a * b + c, exact or rounded to odd, so that one later rounding to f16, bf16 or f32 gives the
/// correctly rounded result. `a * b` must be exact in a double, as it is for f16, bf16 and f32.
inline double FmaToOdd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  // The true value lies beyond `sum` on the side of the error's sign.
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

}  // namespace cupola::sim
