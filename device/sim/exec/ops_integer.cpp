// Integer arithmetic [PTX ISA 9.7.1, 9.7.2 (carry), 9.7.1.23-24 (dp4a, dp2a)] and 16-bit pairs.
#include <algorithm>
#include <limits>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// The arithmetic uses unsigned types that are wide enough, so that nothing overflows in C++.
struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t(Unsigned<T>(a)) + Unsigned<T>(b));
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t(Unsigned<T>(a)) - Unsigned<T>(b));
  }
};
struct MulLow {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t(Unsigned<T>(a)) * Unsigned<T>(b));
  }
};
struct MulHigh {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>((static_cast<__int128>(a) * b) >> (sizeof(T) * 8));
    } else {
      return static_cast<T>((static_cast<unsigned __int128>(a) * b) >> (sizeof(T) * 8));
    }
  }
};
struct MulWide {
  template <typename T>
  auto operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    using Result =
        std::conditional_t<sizeof(T) == 2,
                           std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, Wide>;
    return static_cast<Result>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
};
/// The low or high 32 bits of the 48-bit product of the low 24 bits.
template <bool kHigh>
struct Mul24 {
  template <typename T>
  T operator()(T a, T b) const {
    const int64_t x = std::is_signed_v<T> ? int64_t(int32_t(uint32_t(a) << 8) >> 8)
                                          : int64_t(uint32_t(a) & 0xFFFFFF);
    const int64_t y = std::is_signed_v<T> ? int64_t(int32_t(uint32_t(b) << 8) >> 8)
                                          : int64_t(uint32_t(b) & 0xFFFFFF);
    const int64_t product = x * y;
    return static_cast<T>(static_cast<uint32_t>(kHigh ? product >> 16 : product));
  }
};
template <typename Mul>
struct MulAdd {
  template <typename T, typename C>
  C operator()(T a, T b, C c) const {
    return Add{}(static_cast<C>(Mul{}(a, b)), c);
  }
};
template <typename Mul>
struct MulHighAddSat {  // for mad.hi.sat.s32 and mad24.hi.sat.s32
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    const int64_t sum = int64_t{Mul{}(a, b)} + c;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct AddSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};
/// The ISA does not specify division by zero. A GPU gives all ones for div and the dividend for
/// rem.
struct Div {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub{}(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct MinRelu {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(T{0}, std::min(a, b));
  }
};
struct MaxRelu {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(T{0}, std::max(a, b));
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    return std::is_signed_v<T> && a < 0 ? Sub{}(T{0}, a) : a;
  }
};
struct Neg {
  template <typename T>
  T operator()(T a) const {
    return Sub{}(T{0}, a);
  }
};
struct Sad {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add{}(c, a < b ? Sub{}(b, a) : Sub{}(a, b));
  }
};

/// Applies Op to both 16-bit halves.
template <typename T, typename Op>
struct Pair {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const uint16_t low = static_cast<uint16_t>(Op{}(static_cast<T>(a), static_cast<T>(b)));
    const uint16_t high =
        static_cast<uint16_t>(Op{}(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | uint32_t{high} << 16;
  }
};

// ---- carry: CC.CF, one bit per lane ----

template <typename T, bool kSubtract, bool kUseCarry, bool kSetCarry>
void Carry(Warp& warp, const Insn& in, uint32_t active) {
  T* d = warp.Row<T>(in.d);
  const T* a = warp.Row<T>(in.a);
  const T* b = warp.Row<T>(in.b);
  uint32_t carry = warp.carry;
  ForLanes(active, [&](uint32_t lane) {
    using Wide = unsigned __int128;
    const T right = kSubtract ? static_cast<T>(~b[lane]) : b[lane];
    // sub.cc sets CF to the borrow, and subc subtracts it: a + ~b + !borrow.
    const uint32_t in_bit = kUseCarry ? (carry >> lane) & 1u : 0;
    const Wide sum = Wide{a[lane]} + right + (kSubtract ? 1 - in_bit : in_bit);
    d[lane] = static_cast<T>(sum);
    if (!kSetCarry) return;
    const bool out = ((sum >> (sizeof(T) * 8)) != 0) != kSubtract;
    carry = out ? carry | 1u << lane : carry & ~(1u << lane);
  });
  warp.carry = carry;
}

/// mad.cc and madc: they add the low or high half of the product with carry.
template <typename T, bool kHigh, bool kUseCarry, bool kSetCarry>
void MadCarry(Warp& warp, const Insn& in, uint32_t active) {
  using U = Unsigned<T>;
  U* d = warp.Row<U>(in.d);
  const U* a = warp.Row<U>(in.a);
  const U* b = warp.Row<U>(in.b);
  const U* c = warp.Row<U>(in.c);
  uint32_t carry = warp.carry;
  ForLanes(active, [&](uint32_t lane) {
    const T product = kHigh ? MulHigh{}(static_cast<T>(a[lane]), static_cast<T>(b[lane]))
                            : MulLow{}(static_cast<T>(a[lane]), static_cast<T>(b[lane]));
    unsigned __int128 sum = static_cast<unsigned __int128>(static_cast<U>(product)) + c[lane];
    if (kUseCarry) sum += (carry >> lane) & 1u;
    d[lane] = static_cast<U>(sum);
    if (!kSetCarry) return;
    carry = (sum >> (sizeof(T) * 8)) != 0 ? carry | 1u << lane : carry & ~(1u << lane);
  });
  warp.carry = carry;
}

template <typename T, bool kSubtract>
Handler PickCarry(bool use, bool set) {
  if (use) return set ? Carry<T, kSubtract, true, true> : Carry<T, kSubtract, true, false>;
  return Carry<T, kSubtract, false, true>;
}

template <bool kSubtract>
bool DecodeCarry(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  const bool use = decoder.in().opcode == "addc" || decoder.in().opcode == "subc";
  const bool set = decoder.Has("cc");
  if (IsFloat(type)) return false;
  return Simple(decoder, type,
                CellBytes(type) == 8 ? PickCarry<uint64_t, kSubtract>(use, set)
                                     : PickCarry<uint32_t, kSubtract>(use, set));
}

template <typename Op>
Handler PickBinary(Type type) {
  if (type == Type::kU16x2) return Map2<uint32_t, uint32_t, uint32_t, Pair<uint16_t, Op>>;
  if (type == Type::kS16x2) return Map2<uint32_t, uint32_t, uint32_t, Pair<int16_t, Op>>;
  return PickInteger(type, []<typename T>() -> Handler { return Map2<T, T, T, Op>; });
}

template <typename Op, typename Saturated, bool kSubtract>
bool DecodeAddSub(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.Has("cc")) return DecodeCarry<kSubtract>(decoder);
  if (decoder.Has("sat")) {
    return type == Type::kS32 && Simple(decoder, type, Map2<int32_t, int32_t, int32_t, Saturated>);
  }
  return Simple(decoder, type, PickBinary<Op>(type));
}

template <typename Op>
bool DecodeBinary(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type, PickBinary<Op>(type));
}

template <typename Op>
bool DecodeUnary(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type,
                PickInteger(type, []<typename T>() -> Handler { return Map1<T, T, Op>; }));
}

bool DecodeMul(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.Has("wide")) {
    Insn& out = decoder.out;
    if (decoder.OperandCount() != 3) return false;
    switch (type) {
      case Type::kU16:
        out.run = Map2<uint32_t, uint16_t, uint16_t, MulWide>;
        break;
      case Type::kS16:
        out.run = Map2<int32_t, int16_t, int16_t, MulWide>;
        break;
      case Type::kU32:
        out.run = Map2<uint64_t, uint32_t, uint32_t, MulWide>;
        break;
      case Type::kS32:
        out.run = Map2<int64_t, int32_t, int32_t, MulWide>;
        break;
      default:
        return false;
    }
    out.a = decoder.Source(1, type);
    out.b = decoder.Source(2, type);
    out.d = decoder.Destination(0, TypeBytes(type) == 2 ? Type::kU32 : Type::kU64);
    return true;
  }
  if (decoder.Has("hi")) return DecodeBinary<MulHigh>(decoder);
  return decoder.Has("lo") && DecodeBinary<MulLow>(decoder);
}

bool DecodeMul24(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type != Type::kU32 && type != Type::kS32) return false;
  const bool high = decoder.Has("hi");
  if (decoder.OperandCount() == 4) {  // mad24
    if (decoder.Has("sat")) {
      return high && type == Type::kS32 &&
             Simple(decoder, type,
                    Map3<int32_t, int32_t, int32_t, int32_t, MulHighAddSat<Mul24<true>>>);
    }
    return Simple(
        decoder, type,
        type == Type::kS32
            ? (high ? Map3<int32_t, int32_t, int32_t, int32_t, MulAdd<Mul24<true>>>
                    : Map3<int32_t, int32_t, int32_t, int32_t, MulAdd<Mul24<false>>>)
            : (high ? Map3<uint32_t, uint32_t, uint32_t, uint32_t, MulAdd<Mul24<true>>>
                    : Map3<uint32_t, uint32_t, uint32_t, uint32_t, MulAdd<Mul24<false>>>));
  }
  if (type == Type::kS32) {
    return Simple(decoder, type,
                  high ? Map2<int32_t, int32_t, int32_t, Mul24<true>>
                       : Map2<int32_t, int32_t, int32_t, Mul24<false>>);
  }
  return Simple(decoder, type,
                high ? Map2<uint32_t, uint32_t, uint32_t, Mul24<true>>
                     : Map2<uint32_t, uint32_t, uint32_t, Mul24<false>>);
}

template <typename T>
Handler PickMadCarry(bool high, bool use, bool set) {
  if (high) {
    if (use) return set ? MadCarry<T, true, true, true> : MadCarry<T, true, true, false>;
    return MadCarry<T, true, false, true>;
  }
  if (use) return set ? MadCarry<T, false, true, true> : MadCarry<T, false, true, false>;
  return MadCarry<T, false, false, true>;
}

bool DecodeMadCarry(Decoder& decoder, Type type) {
  const bool use = decoder.in().opcode == "madc";
  const bool set = decoder.Has("cc");
  const bool high = decoder.Has("hi");
  switch (type) {
    case Type::kU32:
      return Simple(decoder, type, PickMadCarry<uint32_t>(high, use, set));
    case Type::kS32:
      return Simple(decoder, type, PickMadCarry<int32_t>(high, use, set));
    case Type::kU64:
      return Simple(decoder, type, PickMadCarry<uint64_t>(high, use, set));
    case Type::kS64:
      return Simple(decoder, type, PickMadCarry<int64_t>(high, use, set));
    default:
      return false;
  }
}

bool DecodeMad(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (IsFloat(type)) return Opcodes().at("fma")(decoder);
  if (decoder.OperandCount() != 4) return false;
  if (decoder.Has("cc") || decoder.in().opcode == "madc") return DecodeMadCarry(decoder, type);
  if (decoder.Has("wide")) {
    const Type wide = TypeBytes(type) == 2 ? Type::kU32 : Type::kU64;
    Insn& out = decoder.out;
    switch (type) {
      case Type::kU16:
        out.run = Map3<uint32_t, uint16_t, uint16_t, uint32_t, MulAdd<MulWide>>;
        break;
      case Type::kS16:
        out.run = Map3<int32_t, int16_t, int16_t, int32_t, MulAdd<MulWide>>;
        break;
      case Type::kU32:
        out.run = Map3<uint64_t, uint32_t, uint32_t, uint64_t, MulAdd<MulWide>>;
        break;
      case Type::kS32:
        out.run = Map3<int64_t, int32_t, int32_t, int64_t, MulAdd<MulWide>>;
        break;
      default:
        return false;
    }
    out.a = decoder.Source(1, type);
    out.b = decoder.Source(2, type);
    out.c = decoder.Source(3, wide);
    out.d = decoder.Destination(0, wide);
    return true;
  }
  if (decoder.Has("hi")) {
    if (decoder.Has("sat")) {
      return type == Type::kS32 &&
             Simple(decoder, type,
                    Map3<int32_t, int32_t, int32_t, int32_t, MulHighAddSat<MulHigh>>);
    }
    return Simple(decoder, type, PickInteger(type, []<typename T>() -> Handler {
                    return Map3<T, T, T, T, MulAdd<MulHigh>>;
                  }));
  }
  return Simple(decoder, type, PickInteger(type, []<typename T>() -> Handler {
                  return Map3<T, T, T, T, MulAdd<MulLow>>;
                }));
}

bool DecodeSad(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type,
                PickInteger(type, []<typename T>() -> Handler { return Map3<T, T, T, T, Sad>; }));
}

/// Decodes add, sub, min, max, abs and neg: integer forms here, float forms by ops_float.cpp.
template <bool (*kInteger)(Decoder&)>
bool DecodeShared(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (!IsFloat(type)) return kInteger(decoder);
  const bool half = type != Type::kF32 && type != Type::kF64;
  const std::string name = (half ? "half " : "float ") + decoder.in().opcode;
  const auto it = Opcodes().find(name);
  return it != Opcodes().end() && it->second(decoder);
}

template <typename Op, typename Relu>
bool DecodeMinMax(Decoder& decoder) {
  if (decoder.Has("relu")) {
    if (decoder.TypeAt(0) == Type::kS16x2) {
      return Simple(decoder, Type::kS16x2, Map2<uint32_t, uint32_t, uint32_t, Pair<int16_t, Relu>>);
    }
    return decoder.TypeAt(0) == Type::kS32 &&
           Simple(decoder, Type::kS32, Map2<int32_t, int32_t, int32_t, Relu>);
  }
  return DecodeBinary<Op>(decoder);
}

// ---- dot products ----

/// dp4a and dp2a: flags bit 0: a is signed, bit 1: b is signed, bit 2: dp2a.hi; small: 4 or 2.
void DotProduct(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const auto part = [](uint32_t word, uint32_t index, uint32_t bits, bool is_signed) -> int32_t {
    const uint32_t value = word << (32 - bits - index * bits);
    return is_signed ? static_cast<int32_t>(value) >> (32 - bits)
                     : static_cast<int32_t>(value >> (32 - bits));
  };
  const uint32_t a_bits = in.small == 4 ? 8 : 16;
  const uint32_t first = (in.flags & 4) != 0 ? 2 : 0;
  ForLanes(active, [&](uint32_t lane) {
    uint32_t sum = c[lane];
    for (uint32_t i = 0; i < in.small; ++i) {
      sum += static_cast<uint32_t>(part(a[lane], i, a_bits, (in.flags & 1) != 0)) *
             static_cast<uint32_t>(part(b[lane], i + first, 8, (in.flags & 2) != 0));
    }
    d[lane] = sum;
  });
}

bool DecodeDotProduct(Decoder& decoder) {
  if (!Simple(decoder, Type::kB32, DotProduct) || decoder.OperandCount() != 4) return false;
  decoder.out.small = decoder.in().opcode == "dp4a" ? 4 : 2;
  decoder.out.flags = static_cast<uint8_t>(
      IsSigned(decoder.TypeAt(0)) | IsSigned(decoder.TypeAt(1)) << 1 | decoder.Has("hi") << 2);
  return true;
}

bool DecodeMulAny(Decoder& decoder) { return DecodeMul(decoder); }

}  // namespace

void AddIntegerOps(OpTable& table) {
  table["add"] = DecodeShared<DecodeAddSub<Add, AddSat, false>>;
  table["sub"] = DecodeShared<DecodeAddSub<Sub, SubSat, true>>;
  table["addc"] = DecodeCarry<false>;
  table["subc"] = DecodeCarry<true>;
  table["mul"] = DecodeShared<DecodeMulAny>;
  table["mul24"] = DecodeMul24;
  table["mad24"] = DecodeMul24;
  table["mad"] = DecodeMad;
  table["madc"] = DecodeMad;
  table["div"] = DecodeShared<DecodeBinary<Div>>;
  table["rem"] = DecodeBinary<Rem>;
  table["min"] = DecodeShared<DecodeMinMax<Min, MinRelu>>;
  table["max"] = DecodeShared<DecodeMinMax<Max, MaxRelu>>;
  table["abs"] = DecodeShared<DecodeUnary<Abs>>;
  table["neg"] = DecodeShared<DecodeUnary<Neg>>;
  table["sad"] = DecodeSad;
  table["dp4a"] = DecodeDotProduct;
  table["dp2a"] = DecodeDotProduct;
}

}  // namespace cupola::sim
