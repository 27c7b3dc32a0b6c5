// The elements of matrix fragments of mma and wmma: their formats, how many are in a register, and
// their values as doubles, exactly. Only the matrix families use it. Pure functions; any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "device/sim/exec/half.h"
#include "device/sim/exec/narrow.h"
#include "device/sim/exec/state.h"

namespace cupola::sim {

enum class Element : uint8_t {
  kNone,
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kE4M3,
  kE5M2,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32
};

constexpr uint32_t ElementBits(Element e) {
  switch (e) {
    case Element::kF64:
      return 64;
    case Element::kF16:
    case Element::kBf16:
      return 16;
    case Element::kE4M3:
    case Element::kE5M2:
    case Element::kS8:
    case Element::kU8:
      return 8;
    case Element::kS4:
    case Element::kU4:
      return 4;
    case Element::kB1:
      return 1;
    default:
      return 32;
  }
}

/// Number of elements in one register of a fragment. A register has 32 bits, for f64 64 bits.
constexpr uint32_t PerWord(Element e) { return e == Element::kF64 ? 1 : 32 / ElementBits(e); }

/// Whether products of these elements are summed as integers, which wrap or saturate.
constexpr bool IsIntegral(Element e) { return e >= Element::kS8; }

inline Element ParseElement(std::string_view name) {
  struct Entry {
    std::string_view name;
    Element element;
  };
  static constexpr Entry kNames[] = {
      {"f16", Element::kF16},   {"bf16", Element::kBf16}, {"tf32", Element::kTf32},
      {"f32", Element::kF32},   {"f64", Element::kF64},   {"e4m3", Element::kE4M3},
      {"e5m2", Element::kE5M2}, {"s8", Element::kS8},     {"u8", Element::kU8},
      {"s4", Element::kS4},     {"u4", Element::kU4},     {"b1", Element::kB1},
      {"s32", Element::kS32}};
  for (const Entry& entry : kNames) {
    if (entry.name == name) return entry.element;
  }
  return Element::kNone;
}

inline double DecodeElement(Element e, uint64_t word, uint32_t index) {
  switch (e) {
    case Element::kF16:
      return HalfToFloat(static_cast<uint16_t>(word >> (16 * index)));
    case Element::kBf16:
      return BfloatToFloat(static_cast<uint16_t>(word >> (16 * index)));
    case Element::kTf32:
      return std::bit_cast<float>(static_cast<uint32_t>(word) & 0xFFFFE000u);
    case Element::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(word));
    case Element::kF64:
      return std::bit_cast<double>(word);
    case Element::kE4M3:
      return Fp8ToFloat(true, static_cast<uint8_t>(word >> (8 * index)));
    case Element::kE5M2:
      return Fp8ToFloat(false, static_cast<uint8_t>(word >> (8 * index)));
    case Element::kS8:
      return static_cast<int8_t>(word >> (8 * index));
    case Element::kU8:
      return static_cast<uint8_t>(word >> (8 * index));
    case Element::kS4:
      return static_cast<int8_t>(word >> (4 * index) << 4) >> 4;
    case Element::kU4:
      return static_cast<double>(word >> (4 * index) & 15);
    case Element::kB1:
      return static_cast<double>(word >> index & 1);
    case Element::kS32:
      return static_cast<int32_t>(word);
    case Element::kNone:
      break;
  }
  return 0;
}

/// Reads element `i` of lane `lane` from the registers `refs`.
inline double ReadElement(Warp& warp, Element e, const uint32_t* refs, uint32_t lane, uint32_t i) {
  if (e == Element::kF64) return std::bit_cast<double>(warp.Row<uint64_t>(refs[i])[lane]);
  const uint32_t per = PerWord(e);
  return DecodeElement(e, warp.Row<uint32_t>(refs[i / per])[lane], i % per);
}

/// Writes element `i` of an accumulator, of format f16, f32, f64 or s32.
inline void PutElement(Warp& warp, Element e, const uint32_t* refs, uint32_t lane, uint32_t i,
                       double value, bool saturate) {
  if (e == Element::kF64) {
    warp.Row<uint64_t>(refs[i])[lane] = std::bit_cast<uint64_t>(value);
    return;
  }
  if (e == Element::kF16) {
    uint32_t* word = &warp.Row<uint32_t>(refs[i / 2])[lane];
    const uint32_t shift = 16 * (i % 2);
    *word = (*word & ~(0xFFFFu << shift)) | uint32_t{RoundToHalf(value)} << shift;
    return;
  }
  uint32_t* word = &warp.Row<uint32_t>(refs[i])[lane];
  if (e == Element::kF32) {
    const float single = static_cast<float>(value);
    *word = std::isnan(single) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(single);
    return;
  }
  if (saturate && value > INT32_MAX) value = INT32_MAX;
  if (saturate && value < INT32_MIN) value = INT32_MIN;
  *word = static_cast<uint32_t>(static_cast<int64_t>(value));
}

}  // namespace cupola::sim
