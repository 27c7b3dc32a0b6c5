// f16, bf16 and their pairs [PTX ISA 9.7.4]. Operands are widened, the result is computed so that
// only one rounding remains, and then rounded.
#include <cmath>

#include "device/sim/exec/half.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint8_t kHalfFtz = 1, kHalfSat = 2, kHalfRelu = 4, kHalfNan = 8, kHalfXorSign = 16,
                  kHalfAbsIn = 32;

enum class HalfOp : uint8_t { kAdd, kSub, kMul, kFma, kMin, kMax, kAbs, kNeg, kEx2, kTanh };

struct F16 {
  static double Read(uint16_t bits) { return HalfToFloat(bits); }
  static uint16_t Round(double value) { return RoundToHalf(value); }
  static constexpr uint16_t kExponent = 0x7C00;
};
struct Bf16 {
  static double Read(uint16_t bits) { return BfloatToFloat(bits); }
  static uint16_t Round(double value) { return RoundToBfloat(value); }
  static constexpr uint16_t kExponent = 0x7F80;
};

template <typename F>
bool IsNan(uint16_t bits) {
  return (bits & 0x7FFF) > F::kExponent;
}

template <typename F>
uint16_t MinMaxHalf(uint16_t a, uint16_t b, bool max, uint8_t flags) {
  const uint16_t sign = (a ^ b) & 0x8000;
  if ((flags & kHalfAbsIn) != 0) {
    a &= 0x7FFF;
    b &= 0x7FFF;
  }
  if (IsNan<F>(a) || IsNan<F>(b)) {
    if ((flags & kHalfNan) != 0 || (IsNan<F>(a) && IsNan<F>(b))) return 0x7FFF;
    const uint16_t other = IsNan<F>(a) ? b : a;
    return (flags & kHalfXorSign) != 0 ? static_cast<uint16_t>((other & 0x7FFF) | sign) : other;
  }
  const double x = F::Read(a), y = F::Read(b);
  bool first = x < y || (x == y && std::signbit(x));
  if (max) first = x > y || (x == y && !std::signbit(x));
  uint16_t result = first ? a : b;
  if ((flags & kHalfXorSign) != 0) result = static_cast<uint16_t>((result & 0x7FFF) | sign);
  return result;
}

template <typename F, HalfOp kOp>
uint16_t Apply(uint16_t a, uint16_t b, uint16_t c, uint8_t flags) {
  const auto flush = [flags](uint16_t bits) -> uint16_t {
    return (flags & kHalfFtz) != 0 && (bits & F::kExponent) == 0 ? bits & 0x8000 : bits;
  };
  a = flush(a);
  b = flush(b);
  c = flush(c);
  if constexpr (kOp == HalfOp::kAbs || kOp == HalfOp::kNeg) {
    if (IsNan<F>(a)) return 0x7FFF;
    return kOp == HalfOp::kAbs ? a & 0x7FFF : a ^ 0x8000;
  }
  uint16_t result = 0;
  if constexpr (kOp == HalfOp::kMin || kOp == HalfOp::kMax) {
    return MinMaxHalf<F>(a, b, kOp == HalfOp::kMax, flags);
  } else {
    const double x = F::Read(a), y = F::Read(b), z = F::Read(c);
    double value = 0;
    if constexpr (kOp == HalfOp::kAdd) value = FmaToOdd(x, 1.0, y);
    if constexpr (kOp == HalfOp::kSub) value = FmaToOdd(x, 1.0, -y);
    if constexpr (kOp == HalfOp::kMul) value = x * y;
    if constexpr (kOp == HalfOp::kFma) value = FmaToOdd(x, y, z);
    if constexpr (kOp == HalfOp::kEx2) value = std::exp2(x);
    if constexpr (kOp == HalfOp::kTanh) value = std::tanh(x);
    if ((flags & kHalfSat) != 0) value = !(value > 0) ? 0.0 : value > 1 ? 1.0 : value;
    if ((flags & kHalfRelu) != 0 && (value < 0 || (value == 0 && std::signbit(value)))) value = 0;
    result = F::Round(value);
  }
  return flush(result);
}

template <typename F, HalfOp kOp, bool kPair>
void Half(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const uint8_t flags = in.flags;
  ForLanes(active, [=](uint32_t lane) {
    const uint32_t x = a[lane], y = b[lane], z = c[lane];
    uint32_t result = Apply<F, kOp>(static_cast<uint16_t>(x), static_cast<uint16_t>(y),
                                    static_cast<uint16_t>(z), flags);
    if (kPair) {
      result |=
          uint32_t{Apply<F, kOp>(static_cast<uint16_t>(x >> 16), static_cast<uint16_t>(y >> 16),
                                 static_cast<uint16_t>(z >> 16), flags)}
          << 16;
    }
    d[lane] = result;
  });
}

template <HalfOp kOp>
bool DecodeHalf(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  Handler handler = nullptr;
  switch (type) {
    case Type::kF16:
      handler = Half<F16, kOp, false>;
      break;
    case Type::kF16x2:
      handler = Half<F16, kOp, true>;
      break;
    case Type::kBF16:
      handler = Half<Bf16, kOp, false>;
      break;
    case Type::kBF16x2:
      handler = Half<Bf16, kOp, true>;
      break;
    default:
      return false;
  }
  if (!Simple(decoder, type, handler)) return false;
  Insn& out = decoder.out;
  if (out.b == kNoRef) out.b = out.a;
  if (out.c == kNoRef) out.c = out.a;
  out.flags = static_cast<uint8_t>(
      (decoder.Has("ftz") ? kHalfFtz : 0) | (decoder.Has("sat") ? kHalfSat : 0) |
      (decoder.Has("relu") ? kHalfRelu : 0) | (decoder.Has("NaN") ? kHalfNan : 0) |
      (decoder.Has("xorsign") ? kHalfXorSign : 0) | (decoder.Has("abs") ? kHalfAbsIn : 0));
  return true;
}

}  // namespace

void AddHalfOps(OpTable& table) {
  table["half add"] = DecodeHalf<HalfOp::kAdd>;
  table["half sub"] = DecodeHalf<HalfOp::kSub>;
  table["half mul"] = DecodeHalf<HalfOp::kMul>;
  table["half fma"] = DecodeHalf<HalfOp::kFma>;
  table["half min"] = DecodeHalf<HalfOp::kMin>;
  table["half max"] = DecodeHalf<HalfOp::kMax>;
  table["half abs"] = DecodeHalf<HalfOp::kAbs>;
  table["half neg"] = DecodeHalf<HalfOp::kNeg>;
  table["half ex2"] = DecodeHalf<HalfOp::kEx2>;
  table["half tanh"] = DecodeHalf<HalfOp::kTanh>;
}

}  // namespace cupola::sim
