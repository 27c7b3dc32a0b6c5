// cvt between register types [PTX ISA 9.7.9.21]. For other formats see ops_narrow.cpp.
#include <cmath>
#include <limits>

#include "device/sim/exec/half.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint8_t kFtz = 1, kSat = 2, kIntegral = 4, kRelu = 8, kSatFinite = 16;

/// A conversion. In an Insn, small is the source type, imm the destination type, list the Rounding,
/// and flags are as above. The registers, and so the cells, of both sides may be wider than the
/// types.
struct Shape {
  Type to, from;
  Rounding rounding;
};

Shape ShapeOf(const Insn& in) {
  return {static_cast<Type>(in.imm), static_cast<Type>(in.small),
          static_cast<Rounding>(in.list & 7)};
}

float FlushFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : value;
}

/// The source value as a double, exactly. Only for floats.
double FloatValue(Type type, uint64_t bits, bool ftz) {
  switch (type) {
    case Type::kF16:
      return HalfToFloat(static_cast<uint16_t>(bits));
    case Type::kBF16:
      return BfloatToFloat(static_cast<uint16_t>(bits));
    case Type::kF32: {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return ftz ? FlushFloat(value) : value;
    }
    default:
      return std::bit_cast<double>(bits);
  }
}

uint64_t SignExtend(Type type, uint64_t bits) {
  const uint32_t shift = 64 - TypeBytes(type) * 8;
  if (IsSigned(type)) return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
  return shift == 0 ? bits : bits << shift >> shift;
}

/// `value` rounded to a float in the given direction.
float RoundToFloat(double value, Rounding rounding) {
  const float nearest = static_cast<float>(value);
  if (rounding == Rounding::kNearest || std::isnan(value) ||
      static_cast<double>(nearest) == value) {
    return nearest;
  }
  // An overflow to infinity also comes here; nextafter then steps back to the largest float.
  const bool up = rounding == Rounding::kUp || (rounding == Rounding::kZero && value < 0);
  if (up && static_cast<double>(nearest) < value) return std::nextafter(nearest, INFINITY);
  if (!up && static_cast<double>(nearest) > value) return std::nextafter(nearest, -INFINITY);
  return nearest;
}

uint64_t FloatToInteger(Type to, Type from, double value, Rounding rounding) {
  if (std::isnan(value)) {
    // As an H200 does: NaN gives only the highest bit for 64-bit results, and for 32-bit results of
    // an f64; else 0.
    if (TypeBytes(to) == 8) return 0x8000'0000'0000'0000ull;
    return TypeBytes(to) == 4 && from == Type::kF64 ? 0x8000'0000u : 0;
  }
  const double rounded = RoundInteger(value, rounding);
  const uint32_t bits = TypeBytes(to) * 8;
  if (IsSigned(to)) {
    const double limit = std::ldexp(1.0, static_cast<int>(bits) - 1);
    if (rounded >= limit) return (1ull << (bits - 1)) - 1;
    if (rounded < -limit) return SignExtend(to, 1ull << (bits - 1));
    return static_cast<uint64_t>(static_cast<int64_t>(rounded));
  }
  if (rounded <= 0) return 0;
  if (rounded >= std::ldexp(1.0, static_cast<int>(bits)))
    return bits == 64 ? ~0ull : (1ull << bits) - 1;
  return static_cast<uint64_t>(rounded);
}

uint64_t SaturateInteger(Type to, Type from, uint64_t bits) {
  const uint64_t value = SignExtend(from, bits);
  const uint32_t width = TypeBytes(to) * 8;
  const bool negative = IsSigned(from) && static_cast<int64_t>(value) < 0;
  if (IsSigned(to)) {
    const int64_t max = static_cast<int64_t>((1ull << (width - 1)) - 1), min = -max - 1;
    if (negative) return static_cast<int64_t>(value) < min ? static_cast<uint64_t>(min) : value;
    return value > static_cast<uint64_t>(max) ? static_cast<uint64_t>(max) : value;
  }
  if (negative) return 0;
  const uint64_t max = width == 64 ? ~0ull : (1ull << width) - 1;
  return value > max ? max : value;
}

/// A 64-bit integer rounded to a double or float in the given direction.
double IntegerToDouble(Type from, uint64_t bits, Rounding rounding, bool single) {
  const uint64_t value = SignExtend(from, bits);
  const bool negative = IsSigned(from) && static_cast<int64_t>(value) < 0;
  const uint64_t magnitude = negative ? 0 - value : value;
  const uint32_t width = 64 - static_cast<uint32_t>(std::countl_zero(magnitude));
  const uint32_t keep = single ? 24 : 53;
  if (width <= keep) {
    const double exact = static_cast<double>(magnitude);
    return negative ? -exact : exact;
  }
  const uint32_t drop = width - keep;
  uint64_t kept = magnitude >> drop;
  const uint64_t rest = magnitude & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::kNearest:
      up = rest > half || (rest == half && (kept & 1));
      break;
    case Rounding::kNearestAway:
      up = rest >= half;
      break;
    case Rounding::kZero:
      break;
    case Rounding::kDown:
      up = negative && rest != 0;
      break;
    case Rounding::kUp:
      up = !negative && rest != 0;
      break;
  }
  const double result = std::ldexp(static_cast<double>(kept + up), static_cast<int>(drop));
  return negative ? -result : result;
}

uint64_t FloatResult(const Shape& shape, double value, uint8_t flags) {
  if ((flags & kIntegral) != 0 && !std::isnan(value)) value = RoundInteger(value, shape.rounding);
  if ((flags & kRelu) != 0 && (value < 0 || (value == 0 && std::signbit(value)))) value = 0;
  if ((flags & kSat) != 0) value = !(value > 0) ? 0 : value > 1 ? 1 : value;
  const Rounding rounding = (flags & kIntegral) != 0 ? Rounding::kNearest : shape.rounding;
  switch (shape.to) {
    case Type::kF16:
    case Type::kBF16: {
      if (std::isnan(value) && shape.from == Type::kF64 && (flags & kRelu) == 0) {
        const uint64_t nan = std::bit_cast<uint64_t>(value);
        const uint32_t top =
            shape.to == Type::kF16 ? 0x7E00 | (nan >> 42 & 0x3FF) : 0x7FC0 | (nan >> 45 & 0x7F);
        return (nan >> 48 & 0x8000) | top;
      }
      uint16_t bits =
          shape.to == Type::kF16 ? RoundToHalf(value, rounding) : RoundToBfloat(value, rounding);
      const uint16_t infinity = shape.to == Type::kF16 ? 0x7C00 : 0x7F80;
      if ((flags & kSatFinite) != 0 && (bits & 0x7FFF) == infinity) --bits;
      return bits;
    }
    case Type::kF32: {
      float result = RoundToFloat(value, rounding);
      // A NaN from f64 keeps its sign and as much of its payload as fits.
      if (std::isnan(result) && shape.from != Type::kF64) return 0x7FFFFFFFu;
      if ((flags & kFtz) != 0) result = FlushFloat(result);
      return std::bit_cast<uint32_t>(result);
    }
    default:
      return std::bit_cast<uint64_t>(value);
  }
}

uint64_t Convert(const Shape& shape, uint64_t bits, uint8_t flags) {
  if (IsFloat(shape.from)) {
    if (shape.from == shape.to && (flags & ~kFtz) == 0 && (shape.from != Type::kF32)) return bits;
    const double value = FloatValue(shape.from, bits, (flags & kFtz) != 0);
    if (IsFloat(shape.to)) return FloatResult(shape, value, flags);
    return FloatToInteger(shape.to, shape.from, value, shape.rounding);
  }
  if (!IsFloat(shape.to)) {
    return (flags & kSat) != 0 ? SaturateInteger(shape.to, shape.from, bits)
                               : SignExtend(shape.from, bits);
  }
  if (shape.to == Type::kF16 || shape.to == Type::kBF16) {
    // To round only once, the value becomes a double that is rounded to odd, and then the 16-bit
    // format. The double is inexact where the two directed roundings differ.
    double value = IntegerToDouble(shape.from, bits, Rounding::kZero, false);
    const double down = IntegerToDouble(shape.from, bits, Rounding::kDown, false);
    const double up = IntegerToDouble(shape.from, bits, Rounding::kUp, false);
    if (down != up) value = std::bit_cast<double>(std::bit_cast<uint64_t>(value) | 1);
    return FloatResult(shape, value, flags);
  }
  const double value = IntegerToDouble(shape.from, bits, shape.rounding, shape.to == Type::kF32);
  return FloatResult({shape.to, shape.from, Rounding::kNearest}, value, flags);
}

template <typename D, typename A>
void Cvt(Warp& warp, const Insn& in, uint32_t active) {
  const Shape shape = ShapeOf(in);
  D* d = warp.Row<D>(in.d);
  const A* a = warp.Row<A>(in.a);
  const uint8_t flags = in.flags;
  ForLanes(active, [&](uint32_t lane) {
    uint64_t bits = a[lane];
    if (TypeBytes(shape.from) < sizeof(A)) bits &= (1ull << (TypeBytes(shape.from) * 8)) - 1;
    uint64_t result = Convert(shape, bits, flags);
    // An integer result is extended to a wider register by its own signedness.
    if (!IsFloat(shape.to)) result = SignExtend(shape.to, result);
    d[lane] = static_cast<D>(result);
  });
}

/// The common case: integer to integer without saturation.
template <typename D, typename A, typename From, typename To>
void CvtInteger(Warp& warp, const Insn& in, uint32_t active) {
  D* d = warp.Row<D>(in.d);
  const A* a = warp.Row<A>(in.a);
  ForLanes(active, [=](uint32_t lane) {
    const To narrow = static_cast<To>(static_cast<From>(a[lane]));
    d[lane] = static_cast<D>(
        static_cast<std::conditional_t<std::is_signed_v<To>, int64_t, uint64_t>>(narrow));
  });
}

struct FloatToDouble {
  double operator()(float a) const { return a; }
};
struct DoubleToFloat {
  float operator()(double a) const { return static_cast<float>(a); }
};
struct IntToFloat {
  float operator()(int32_t a) const { return static_cast<float>(a); }
};
struct UintToFloat {
  float operator()(uint32_t a) const { return static_cast<float>(a); }
};
struct IntToDouble {
  double operator()(int32_t a) const { return a; }
};

Handler FastPath(const Shape& shape, uint8_t flags, uint32_t to_cell, uint32_t from_cell) {
  if (flags != 0) return nullptr;
  const bool plain = to_cell == CellBytes(shape.to) && from_cell == CellBytes(shape.from);
  if (!plain) return nullptr;
  const Type to = shape.to, from = shape.from;
  if (to == Type::kU64 && from == Type::kU32)
    return CvtInteger<uint64_t, uint32_t, uint32_t, uint64_t>;
  if (to == Type::kS64 && from == Type::kS32)
    return CvtInteger<uint64_t, uint32_t, int32_t, int64_t>;
  if (TypeBytes(to) == 4 && !IsFloat(to) && TypeBytes(from) == 8 && !IsFloat(from)) {
    return CvtInteger<uint32_t, uint64_t, uint64_t, uint32_t>;
  }
  if (shape.rounding != Rounding::kNearest) return nullptr;
  if (to == Type::kF64 && from == Type::kF32) return Map1<double, float, FloatToDouble>;
  if (to == Type::kF32 && from == Type::kF64) return Map1<float, double, DoubleToFloat>;
  if (to == Type::kF32 && from == Type::kS32) return Map1<float, int32_t, IntToFloat>;
  if (to == Type::kF32 && from == Type::kU32) return Map1<float, uint32_t, UintToFloat>;
  if (to == Type::kF64 && from == Type::kS32) return Map1<double, int32_t, IntToDouble>;
  return nullptr;
}

/// cvt.rn.f16x2.f32 d, a, b: a goes to the upper half.
void CvtPair(Warp& warp, const Insn& in, uint32_t active) {
  const Shape shape = ShapeOf(in);
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint8_t flags = in.flags;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t high = static_cast<uint32_t>(Convert(shape, a[lane], flags));
    const uint32_t low = static_cast<uint32_t>(Convert(shape, b[lane], flags));
    d[lane] = high << 16 | low;
  });
}

/// The rounding that the modifiers name; `integral` becomes true for a rounding to an integer.
Rounding RoundingOf(const Decoder& decoder, bool* integral) {
  static constexpr std::pair<const char*, Rounding> kFloat[] = {{"rn", Rounding::kNearest},
                                                                {"rz", Rounding::kZero},
                                                                {"rm", Rounding::kDown},
                                                                {"rp", Rounding::kUp},
                                                                {"rna", Rounding::kNearestAway}};
  static constexpr std::pair<const char*, Rounding> kInteger[] = {{"rni", Rounding::kNearest},
                                                                  {"rzi", Rounding::kZero},
                                                                  {"rmi", Rounding::kDown},
                                                                  {"rpi", Rounding::kUp}};
  for (const auto& [name, rounding] : kInteger) {
    if (decoder.Has(name)) {
      *integral = true;
      return rounding;
    }
  }
  for (const auto& [name, rounding] : kFloat) {
    if (decoder.Has(name)) return rounding;
  }
  return Rounding::kNearest;
}

bool DecodeCvt(Decoder& decoder) {
  if (decoder.OperandCount() < 2) return false;
  if (decoder.Has("pack")) return Opcodes().at("cvt pack")(decoder);
  if (decoder.Has("tf32")) return Opcodes().at("cvt tf32")(decoder);
  if (decoder.Has("e4m3x2") || decoder.Has("e5m2x2")) return Opcodes().at("cvt fp8")(decoder);
  Insn& out = decoder.out;
  Type to = decoder.TypeAt(0);
  const Type from = decoder.TypeAt(1);
  if (to == Type::kNone || from == Type::kNone || to == Type::kPred) return false;
  bool integral = false;
  const Rounding rounding = RoundingOf(decoder, &integral);
  if (!IsFloat(from)) integral = false;
  if (!IsFloat(to)) integral = false;  // FloatToInteger rounds by itself
  out.list = static_cast<uint32_t>(rounding);
  out.flags =
      static_cast<uint8_t>((decoder.Has("ftz") ? kFtz : 0) | (decoder.Has("sat") ? kSat : 0) |
                           (integral ? kIntegral : 0) | (decoder.Has("relu") ? kRelu : 0) |
                           (decoder.Has("satfinite") ? kSatFinite : 0));
  out.small = static_cast<uint16_t>(from);
  if (decoder.OperandCount() == 3) {
    if (from != Type::kF32 || (to != Type::kF16x2 && to != Type::kBF16x2)) return false;
    out.imm = static_cast<int64_t>(to == Type::kF16x2 ? Type::kF16 : Type::kBF16);
    out.a = decoder.Source(1, from);
    out.b = decoder.Source(2, from);
    out.d = decoder.Destination(0, to);
    out.run = CvtPair;
    return true;
  }
  if (TypeBytes(from) > 8 || to == Type::kF16x2 || to == Type::kBF16x2) return false;
  if (from == Type::kF16x2 || from == Type::kBF16x2) return false;
  out.imm = static_cast<int64_t>(to);
  const uint32_t to_cell = CellBytes(decoder.RegisterType(decoder.Operand(0), to));
  const uint32_t from_cell = CellBytes(decoder.RegisterType(decoder.Operand(1), from));
  out.a = decoder.Source(1, from);
  out.d = decoder.Destination(0, to);
  out.run = FastPath(ShapeOf(out), out.flags, to_cell, from_cell);
  if (out.run != nullptr) return true;
  out.run = to_cell == 8 ? (from_cell == 8 ? Cvt<uint64_t, uint64_t> : Cvt<uint64_t, uint32_t>)
                         : (from_cell == 8 ? Cvt<uint32_t, uint64_t> : Cvt<uint32_t, uint32_t>);
  return true;
}

}  // namespace

void AddConvertOps(OpTable& table) { table["cvt"] = DecodeCvt; }

}  // namespace cupola::sim
