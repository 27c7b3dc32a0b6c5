// The arithmetic of atomics on floating-point values [PTX ISA 9.7.13.7]: f32, f64, f16, bf16 and
// pairs, as functions of their bits. Only the families of atomics use it. Pure functions; any
// thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "device/sim/exec/half.h"
#include "device/sim/exec/types.h"

namespace cupola::sim {

enum class FloatOp : uint8_t { kAdd, kMin, kMax, kNone };

/// The sum, as bits. With `flush`, subnormal operands and results of f32 become zeros, as they do
/// in global memory.
template <typename T>
inline T AddFloat(T old_bits, T b_bits, Type type, bool flush) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(std::bit_cast<double>(old_bits) + std::bit_cast<double>(b_bits));
  } else if constexpr (sizeof(T) == 4) {
    if (type == Type::kF32) {
      float x = std::bit_cast<float>(old_bits), y = std::bit_cast<float>(b_bits);
      const auto to_zero = [flush](float v) {
        const uint32_t bits = std::bit_cast<uint32_t>(v);
        return flush && (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : v;
      };
      x = to_zero(to_zero(x) + to_zero(y));
      return std::isnan(x) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(x);
    }
    const bool half = type == Type::kF16x2;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 32; i += 16) {
      const uint16_t x = static_cast<uint16_t>(old_bits >> i),
                     y = static_cast<uint16_t>(b_bits >> i);
      const uint16_t sum = half ? RoundToHalf(double{HalfToFloat(x)} + HalfToFloat(y))
                                : RoundToBfloat(FmaToOdd(BfloatToFloat(x), 1.0, BfloatToFloat(y)));
      result |= uint32_t{sum} << i;
    }
    return result;
  } else {
    if (type == Type::kF16) return RoundToHalf(double{HalfToFloat(old_bits)} + HalfToFloat(b_bits));
    return RoundToBfloat(FmaToOdd(BfloatToFloat(old_bits), 1.0, BfloatToFloat(b_bits)));
  }
}

template <typename T>
inline T MinMaxHalves(T old, T b, Type type, bool max) {
  const auto pick = [&](uint16_t x, uint16_t y) -> uint16_t {
    const bool half = type == Type::kF16 || type == Type::kF16x2;
    const float u = half ? HalfToFloat(x) : BfloatToFloat(x),
                v = half ? HalfToFloat(y) : BfloatToFloat(y);
    if (std::isnan(u)) return std::isnan(v) ? 0x7FFF : y;
    if (std::isnan(v)) return x;
    return (max ? v > u : v < u) ? y : x;
  };
  T result = 0;
  for (uint32_t i = 0; i < sizeof(T) * 8; i += 16) {
    result |= static_cast<T>(
        static_cast<T>(pick(static_cast<uint16_t>(old >> i), static_cast<uint16_t>(b >> i))) << i);
  }
  return result;
}

template <typename T>
inline T ApplyFloat(FloatOp op, Type type, T old, T b, bool flush) {
  if (op == FloatOp::kAdd) return AddFloat<T>(old, b, type, flush);
  return MinMaxHalves<T>(old, b, type, op == FloatOp::kMax);
}

}  // namespace cupola::sim
