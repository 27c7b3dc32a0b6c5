// fp8 values [PTX ISA 5.2.3]: e4m3 (no infinity, one NaN) and e5m2 (as IEEE). Pure; any thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace cupola::sim {

/// The value of `bits` as e4m3, or else as e5m2.
inline float Fp8ToFloat(bool e4m3, uint8_t bits) {
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int magnitude = bits & 0x7F;
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  float value = 0;
  if (e4m3 ? magnitude == 0x7F : magnitude > 0x7C) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (!e4m3 && magnitude == 0x7C) {
    value = std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 1 << mantissa_bits),
                       exponent - bias - mantissa_bits);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

}  // namespace cupola::sim
