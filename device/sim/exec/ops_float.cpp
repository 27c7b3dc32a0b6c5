// f32 and f64 arithmetic with IEEE rounding [PTX ISA 9.7.3]. A NaN result of f32 is the canonical
// NaN of GPUs, 0x7FFFFFFF; f64 keeps the payload of a NaN operand, on a GPU as on the host.
// Compiled with -frounding-math, because directed roundings switch the mode of the host's
// floating-point unit around the loop over lanes.
#include <cfenv>
#include <cmath>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint8_t kFtz = 1, kSat = 2, kNanIn = 4, kXorSign = 8, kAbsIn = 16;

inline float Flush(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : value;
}
inline float Canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7FFFFFFFu) : value;
}
inline double Canonical(double value) { return value; }
inline float Saturate(float value) {
  if (!(value > 0)) return 0.0f;  // also for NaN [9.7.3]
  return value > 1 ? 1.0f : value;
}

struct FAdd {
  template <typename T>
  T operator()(T a, T b, T) const {
    return a + b;
  }
};
struct FSub {
  template <typename T>
  T operator()(T a, T b, T) const {
    return a - b;
  }
};
struct FMul {
  template <typename T>
  T operator()(T a, T b, T) const {
    return a * b;
  }
};
struct FDiv {
  template <typename T>
  T operator()(T a, T b, T) const {
    return a / b;
  }
};
struct FFma {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct FSqrt {
  template <typename T>
  T operator()(T a, T, T) const {
    return std::sqrt(a);
  }
};
struct FRcp {
  template <typename T>
  T operator()(T a, T, T) const {
    return T{1} / a;
  }
};

template <typename T, typename Op, bool kPlain>
void Lanes(Warp& warp, const Insn& in, uint32_t active) {
  auto* d = warp.Row<CellOf<T>>(in.d);
  const auto* a = warp.Row<CellOf<T>>(in.a);
  const auto* b = warp.Row<CellOf<T>>(in.b);
  const auto* c = warp.Row<CellOf<T>>(in.c);
  const uint8_t flags = in.flags;
  ForCells(active, [=](uint32_t lane) {
    T x = ReadCell<T>(a, lane), y = ReadCell<T>(b, lane), z = ReadCell<T>(c, lane);
    if constexpr (std::is_same_v<T, float> && !kPlain) {
      if ((flags & kFtz) != 0) {
        x = Flush(x);
        y = Flush(y);
        z = Flush(z);
      }
    }
    T r = Canonical(Op{}(x, y, z));
    if constexpr (std::is_same_v<T, float> && !kPlain) {
      if ((flags & kFtz) != 0) r = Flush(r);
      if ((flags & kSat) != 0) r = Saturate(r);
    }
    WriteCell<T>(d, lane, r);
  });
}

/// small: a mode of fesetround.
template <typename T, typename Op>
__attribute__((noinline)) void RoundedLanes(Warp& warp, const Insn& in, uint32_t active) {
  std::fesetround(in.small);
  Lanes<T, Op, false>(warp, in, active);
  std::fesetround(FE_TONEAREST);
}

int HostRounding(const Decoder& decoder) {
  if (decoder.Has("rz")) return FE_TOWARDZERO;
  if (decoder.Has("rm")) return FE_DOWNWARD;
  if (decoder.Has("rp")) return FE_UPWARD;
  return FE_TONEAREST;
}

/// Decodes "operand 0 = Op of operands 1 to 3". There may be fewer; the first one's row then
/// replaces the missing ones.
template <typename Op>
bool DecodeFloat(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type != Type::kF32 && type != Type::kF64) return false;
  Insn& out = decoder.out;
  if (!Simple(decoder, type, RoundedLanes<float, Op>)) return false;
  if (out.b == kNoRef) out.b = out.a;
  if (out.c == kNoRef) out.c = out.a;
  out.flags =
      static_cast<uint8_t>((decoder.Has("ftz") ? kFtz : 0) | (decoder.Has("sat") ? kSat : 0));
  const int rounding = HostRounding(decoder);
  out.small = static_cast<uint16_t>(rounding);
  if (rounding == FE_TONEAREST) {
    out.run = type == Type::kF64 ? Lanes<double, Op, true>
              : out.flags == 0   ? Lanes<float, Op, true>
                                 : Lanes<float, Op, false>;
  } else {
    out.run = type == Type::kF64 ? RoundedLanes<double, Op> : RoundedLanes<float, Op>;
  }
  return true;
}

/// div, rcp and sqrt. The forms .approx and .full use the correctly rounded operation too, which is
/// within every bound that the ISA gives for them.
template <typename Op>
bool DecodeExactable(Decoder& decoder) {
  const bool coarse = decoder.Has("approx") && decoder.TypeAt(0) == Type::kF64;
  return coarse ? Opcodes().at("rcp approx f64")(decoder) : DecodeFloat<Op>(decoder);
}

bool DecodeFma(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type == Type::kF32 || type == Type::kF64) return DecodeFloat<FFma>(decoder);
  return Opcodes().at("half fma")(decoder);
}

// ---- min, max [9.7.3.11-12] ----

template <typename T, bool kMax>
void MinMax(Warp& warp, const Insn& in, uint32_t active) {
  auto* d = warp.Row<CellOf<T>>(in.d);
  const uint8_t flags = in.flags;
  const CellOf<T>* rows[3] = {warp.Row<CellOf<T>>(in.a), warp.Row<CellOf<T>>(in.b), nullptr};
  if (in.c != kNoRef) rows[2] = warp.Row<CellOf<T>>(in.c);
  ForLanes(active, [&](uint32_t lane) {
    T best = 0, nan_value = 0;
    bool have = false, nan = false, sign = false;
    for (const auto* row : rows) {
      if (row == nullptr) continue;
      T value = ReadCell<T>(row, lane);
      if constexpr (std::is_same_v<T, float>) {
        if ((flags & kFtz) != 0) value = Flush(value);
      }
      sign ^= std::signbit(value);
      if ((flags & (kXorSign | kAbsIn)) != 0) value = std::fabs(value);
      if (std::isnan(value)) {
        nan = true;
        nan_value = value;
        continue;
      }
      // The instructions order -0 below +0.
      const bool less =
          value < best || (value == best && std::signbit(value) && !std::signbit(best));
      const bool greater =
          value > best || (value == best && !std::signbit(value) && std::signbit(best));
      if (!have || (kMax ? greater : less)) best = value;
      have = true;
    }
    T result = best;
    if (!have || (nan && (flags & kNanIn) != 0)) {
      result = Canonical(nan_value);
    } else if ((flags & kXorSign) != 0) {
      result = std::copysign(best, sign ? T{-1} : T{1});
    }
    WriteCell<T>(d, lane, result);
  });
}

template <bool kMax>
bool DecodeMinMax(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (!Simple(decoder, type, type == Type::kF64 ? MinMax<double, kMax> : MinMax<float, kMax>))
    return false;
  decoder.out.flags = static_cast<uint8_t>(
      (decoder.Has("ftz") ? kFtz : 0) | (decoder.Has("NaN") ? kNanIn : 0) |
      (decoder.Has("xorsign") ? kXorSign : 0) | (decoder.Has("abs") ? kAbsIn : 0));
  return decoder.OperandCount() >= 3;
}

// ---- signs ----

template <typename Cell, bool kNegate>
void Sign(Warp& warp, const Insn& in, uint32_t active) {
  constexpr Cell kSign = Cell{1} << (sizeof(Cell) * 8 - 1);
  Cell* d = warp.Row<Cell>(in.d);
  const Cell* a = warp.Row<Cell>(in.a);
  const bool ftz = (in.flags & kFtz) != 0;
  ForLanes(active, [=](uint32_t lane) {
    Cell bits = a[lane];
    if (ftz && sizeof(Cell) == 4)
      bits = std::bit_cast<uint32_t>(Flush(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    const Cell magnitude = bits & ~kSign;
    if constexpr (sizeof(Cell) == 4) {
      d[lane] = magnitude > 0x7F800000u ? 0x7FFFFFFFu : kNegate ? bits ^ kSign : magnitude;
    } else {  // a NaN stays unchanged
      d[lane] = magnitude > 0x7FF0'0000'0000'0000ull ? bits : kNegate ? bits ^ kSign : magnitude;
    }
  });
}

template <bool kNegate>
bool DecodeSign(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  decoder.out.flags = decoder.Has("ftz") ? kFtz : 0;
  return Simple(decoder, type,
                type == Type::kF64 ? Sign<uint64_t, kNegate> : Sign<uint32_t, kNegate>);
}

template <typename Cell>
void CopySign(Warp& warp, const Insn& in, uint32_t active) {
  constexpr Cell kSign = Cell{1} << (sizeof(Cell) * 8 - 1);
  Cell* d = warp.Row<Cell>(in.d);
  const Cell* a = warp.Row<Cell>(in.a);  // gives the sign
  const Cell* b = warp.Row<Cell>(in.b);
  ForLanes(active, [=](uint32_t lane) { d[lane] = (a[lane] & kSign) | (b[lane] & ~kSign); });
}

bool DecodeCopySign(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type, type == Type::kF64 ? CopySign<uint64_t> : CopySign<uint32_t>);
}

}  // namespace

void AddFloatOps(OpTable& table) {
  table["float add"] = DecodeFloat<FAdd>;
  table["float sub"] = DecodeFloat<FSub>;
  table["float mul"] = DecodeFloat<FMul>;
  table["float div"] = DecodeExactable<FDiv>;
  table["float min"] = DecodeMinMax<false>;
  table["float max"] = DecodeMinMax<true>;
  table["float abs"] = DecodeSign<false>;
  table["float neg"] = DecodeSign<true>;
  table["fma"] = DecodeFma;
  table["rcp"] = DecodeExactable<FRcp>;
  table["sqrt"] = DecodeExactable<FSqrt>;
  table["copysign"] = DecodeCopySign;
}

}  // namespace cupola::sim
