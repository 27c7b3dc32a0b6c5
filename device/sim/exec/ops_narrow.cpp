// Conversions to and from formats for which there is no register type: fp8 (e4m3, e5m2), tf32, and
// the pairs of small integers of cvt.pack [PTX ISA 9.7.9.21-22].
#include <algorithm>
#include <cmath>

#include "device/sim/exec/half.h"
#include "device/sim/exec/lanes.h"
#include "device/sim/exec/narrow.h"

namespace cupola::sim {
namespace {

struct Fp8 {
  int mantissa_bits, bias;
  uint8_t largest, nan;  // bits without the sign
};
constexpr Fp8 kE4M3{3, 7, 0x7E, 0x7F}, kE5M2{2, 15, 0x7B, 0x7F};

uint8_t RoundToFp8(const Fp8& format, double value, bool relu) {
  if (std::isnan(value)) return format.nan;
  if (relu && value < 0) value = 0;
  const uint8_t sign = !relu && std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= Fp8ToFloat(format.bias == 7, format.largest)) return sign | format.largest;
  if (magnitude == 0) return sign;
  const int lowest = 1 - format.bias;  // exponent of the smallest normal value
  const int exponent = std::max(std::ilogb(magnitude), lowest);
  const int quantum = exponent - format.mantissa_bits;
  // The value in units of the last place. A carry into the next binade gives the right code by
  // itself.
  const double units = RoundInteger(std::ldexp(magnitude, -quantum), Rounding::kNearest);
  const int code = static_cast<int>(units) + ((exponent - lowest) << format.mantissa_bits);
  return sign | static_cast<uint8_t>(std::min<int>(code, format.largest));
}

constexpr uint8_t kToE4M3 = 1, kNarrowRelu = 2, kFromBfloat = 4;

/// cvt.rn.satfinite.e4m3x2.f32 d, a, b: a goes to the upper byte.
void FloatsToFp8(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const Fp8& format = (in.flags & kToE4M3) != 0 ? kE4M3 : kE5M2;
  const bool relu = (in.flags & kNarrowRelu) != 0;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t high = RoundToFp8(format, std::bit_cast<float>(a[lane]), relu);
    d[lane] = high << 8 | RoundToFp8(format, std::bit_cast<float>(b[lane]), relu);
  });
}

/// cvt.rn.satfinite.e4m3x2.f16x2 d, a
void HalvesToFp8(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const Fp8& format = (in.flags & kToE4M3) != 0 ? kE4M3 : kE5M2;
  const bool relu = (in.flags & kNarrowRelu) != 0, bfloat = (in.flags & kFromBfloat) != 0;
  ForLanes(active, [&](uint32_t lane) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint16_t bits = static_cast<uint16_t>(a[lane] >> (16 * i));
      const float value = bfloat ? BfloatToFloat(bits) : HalfToFloat(bits);
      result |= uint32_t{RoundToFp8(format, value, relu)} << (8 * i);
    }
    d[lane] = result;
  });
}

/// cvt.rn{.relu}.f16x2.e4m3x2 d, a: always exact.
void Fp8ToHalves(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const bool e4m3 = (in.flags & kToE4M3) != 0, relu = (in.flags & kNarrowRelu) != 0;
  ForLanes(active, [&](uint32_t lane) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 2; ++i) {
      float value = Fp8ToFloat(e4m3, static_cast<uint8_t>(a[lane] >> (8 * i)));
      if (relu && std::signbit(value) && !std::isnan(value)) value = 0;
      result |= uint32_t{RoundToHalf(value)} << (16 * i);
    }
    d[lane] = result;
  });
}

bool DecodeFp8(Decoder& decoder) {
  const bool e4m3 = decoder.Has("e4m3x2"), e5m2 = decoder.Has("e5m2x2");
  if (e4m3 == e5m2) return false;
  const Type other = decoder.TypeAt(0);
  const bool to_fp8 = decoder.in().modifiers.back() != (e4m3 ? "e4m3x2" : "e5m2x2");
  Insn& out = decoder.out;
  out.flags = static_cast<uint8_t>((e4m3 ? kToE4M3 : 0) | (decoder.Has("relu") ? kNarrowRelu : 0) |
                                   (other == Type::kBF16x2 ? kFromBfloat : 0));
  if (to_fp8 && !decoder.Has("satfinite")) return false;
  const size_t sources = to_fp8 && other == Type::kF32 ? 2 : 1;
  if (decoder.OperandCount() != sources + 1) return false;
  out.a = decoder.Source(1, sources == 2 ? Type::kF32 : Type::kB32);
  if (sources == 2) out.b = decoder.Source(2, Type::kF32);
  out.d = decoder.Destination(0, to_fp8 ? Type::kB16 : Type::kB32);
  if (!to_fp8) {
    out.run = Fp8ToHalves;
    return other == Type::kF16x2;
  }
  out.run = sources == 2 ? FloatsToFp8 : HalvesToFp8;
  return sources == 2 || other == Type::kF16x2 || other == Type::kBF16x2;
}

// ---- tf32 ----

constexpr uint8_t kAway = 1, kTruncate = 4, kNarrowFinite = 8;

/// Rounds an f32 to tf32: its upper 19 bits; the other bits become zero.
void ToTf32(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint8_t flags = in.flags;
  ForLanes(active, [=](uint32_t lane) {
    const uint32_t bits = a[lane];
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    if ((flags & kNarrowRelu) != 0 && !nan && (bits >> 31) != 0) {
      d[lane] = 0;
      return;
    }
    if (nan && (flags & kNarrowRelu) != 0) {
      d[lane] = 0x7FFFFFFFu;
      return;
    }
    uint32_t result = bits & 0xFFFFE000u;
    if ((bits & 0x7F800000u) != 0x7F800000u && (flags & kTruncate) == 0) {
      const uint32_t half = 0x1000u;
      const uint32_t add = (flags & kAway) != 0 ? half : half - 1 + ((bits >> 13) & 1);
      result = (bits + add) & 0xFFFFE000u;
    }
    if ((flags & kNarrowFinite) != 0 && (result & 0x7FFFFFFFu) == 0x7F800000u) {
      result = (result & 0x80000000u) | 0x7F7FE000u;
    }
    d[lane] = result;
  });
}

bool DecodeTf32(Decoder& decoder) {
  if (decoder.OperandCount() != 2 || decoder.TypeAt(0) != Type::kF32 || !decoder.Has("tf32"))
    return false;
  if (!Simple(decoder, Type::kF32, ToTf32)) return false;
  decoder.out.flags = static_cast<uint8_t>(
      (decoder.Has("rna") ? kAway : 0) | (decoder.Has("relu") ? kNarrowRelu : 0) |
      (decoder.Has("rz") ? kTruncate : 0) | (decoder.Has("satfinite") ? kNarrowFinite : 0));
  return true;
}

// ---- cvt.pack ----

/// cvt.pack. flags: 1 if the elements are signed; small: bits of an element; c, if there is one, is
/// shifted up by two elements.
void PackPair(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = in.c == kNoRef ? nullptr : warp.Row<uint32_t>(in.c);
  const uint32_t bits = in.small;
  const int64_t high = in.flags != 0 ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1;
  const int64_t low = in.flags != 0 ? -high - 1 : 0;
  const uint32_t mask = (1u << bits) - 1;
  ForLanes(active, [&](uint32_t lane) {
    const auto clamp = [&](uint32_t word) {
      return static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int32_t>(word), low, high)) &
             mask;
    };
    const uint32_t pair = clamp(a[lane]) << bits | clamp(b[lane]);
    d[lane] = c == nullptr ? pair : c[lane] << (2 * bits) | pair;
  });
}

/// cvt.pack.sat.{u2,s2,u4,s4,u8,s8}.s32.b32 d, a, b, c | cvt.pack.sat.{u16,s16}.s32 d, a, b
bool DecodePack(Decoder& decoder) {
  static constexpr const char* kNames[] = {"u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"};
  if (!decoder.Has("sat") || !decoder.Has("s32")) return false;
  Insn& out = decoder.out;
  for (const char* name : kNames) {
    if (!decoder.Has(name)) continue;
    out.flags = name[0] == 's';
    out.small = static_cast<uint16_t>(std::atoi(name + 1));
  }
  const size_t count = out.small == 16 ? 3 : 4;
  if (out.small == 0 || decoder.OperandCount() != count) return false;
  out.a = decoder.Source(1, Type::kS32);
  out.b = decoder.Source(2, Type::kS32);
  if (count == 4) out.c = decoder.Source(3, Type::kB32);
  out.d = decoder.Destination(0, Type::kB32);
  out.run = PackPair;
  return true;
}

}  // namespace

void AddNarrowOps(OpTable& table) {
  table["cvt fp8"] = DecodeFp8;
  table["cvt tf32"] = DecodeTf32;
  table["cvt pack"] = DecodePack;
}

}  // namespace cupola::sim
