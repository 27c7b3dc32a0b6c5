// setp, set, selp, slct, testp [PTX ISA 9.7.6, 9.7.7].
#include <cmath>

#include "device/sim/exec/half.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

enum class Cmp : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
  kNone
};

Cmp CompareOf(const Decoder& decoder) {
  static constexpr std::pair<const char*, Cmp> kNames[] = {
      {"eq", Cmp::kEq},   {"ne", Cmp::kNe},   {"lt", Cmp::kLt},   {"le", Cmp::kLe},
      {"gt", Cmp::kGt},   {"ge", Cmp::kGe},   {"lo", Cmp::kLt},   {"ls", Cmp::kLe},
      {"hi", Cmp::kGt},   {"hs", Cmp::kGe},   {"equ", Cmp::kEqu}, {"neu", Cmp::kNeu},
      {"ltu", Cmp::kLtu}, {"leu", Cmp::kLeu}, {"gtu", Cmp::kGtu}, {"geu", Cmp::kGeu},
      {"num", Cmp::kNum}, {"nan", Cmp::kNan}};
  for (const auto& [name, cmp] : kNames) {
    if (decoder.Has(name)) return cmp;
  }
  return Cmp::kNone;
}

template <Cmp C, typename T>
inline bool Compare(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    if constexpr (C == Cmp::kNum) return !unordered;
    if constexpr (C == Cmp::kNan) return unordered;
    if constexpr (C == Cmp::kNe) return !unordered && a != b;
    if constexpr (C >= Cmp::kEqu && C <= Cmp::kGeu) {
      if (unordered) return true;
    }
  }
  if constexpr (C == Cmp::kEq || C == Cmp::kEqu) return a == b;
  if constexpr (C == Cmp::kNe || C == Cmp::kNeu) return a != b;
  if constexpr (C == Cmp::kLt || C == Cmp::kLtu) return a < b;
  if constexpr (C == Cmp::kLe || C == Cmp::kLeu) return a <= b;
  if constexpr (C == Cmp::kGt || C == Cmp::kGtu) return a > b;
  if constexpr (C == Cmp::kGe || C == Cmp::kGeu) return a >= b;
  return false;
}

// Tags that say how Value reads a cell for a comparison.
struct HalfTag {};    // f16, as a float
struct BfloatTag {};  // bf16, as a float
struct FtzTag {};     // f32, with subnormal inputs flushed to zero

template <typename T>
inline auto Value(const CellOf<std::conditional_t<std::is_empty_v<T>, uint32_t, T>>* row,
                  uint32_t lane) {
  if constexpr (std::is_same_v<T, HalfTag>) {
    return HalfToFloat(static_cast<uint16_t>(row[lane]));
  } else if constexpr (std::is_same_v<T, BfloatTag>) {
    return BfloatToFloat(static_cast<uint16_t>(row[lane]));
  } else if constexpr (std::is_same_v<T, FtzTag>) {
    const uint32_t bits = row[lane];
    return std::bit_cast<float>((bits & 0x7F800000u) == 0 ? bits & 0x80000000u : bits);
  } else {
    return ReadCell<T>(row, lane);
  }
}

template <Cmp C, typename T>
uint32_t CompareRows(Warp& warp, const Insn& in, uint32_t active) {
  using Cell = CellOf<std::conditional_t<std::is_empty_v<T>, uint32_t, T>>;
  const Cell* a = warp.Row<Cell>(in.a);
  const Cell* b = warp.Row<Cell>(in.b);
  uint32_t result = 0;
  ForLanes(active, [&](uint32_t lane) {
    result |= uint32_t{Compare<C>(Value<T>(a, lane), Value<T>(b, lane))} << lane;
  });
  return result;
}

/// Combines the result with the predicate in c. small: 0 not at all, 1 and, 2 or, 3 xor.
uint32_t Combine(Warp& warp, const Insn& in, uint32_t value) {
  switch (in.small & 3) {
    case 1:
      return value & warp.Pred(in.c);
    case 2:
      return value | warp.Pred(in.c);
    case 3:
      return value ^ warp.Pred(in.c);
    default:
      return value;
  }
}

template <Cmp C, typename T>
void Setp(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = CompareRows<C, T>(warp, in, active);
  const uint32_t first = Combine(warp, in, value);
  if (in.e != kNoRef) {
    const uint32_t second = Combine(warp, in, ~value);
    warp.SetPred(in.e, active, second);
  }
  warp.SetPred(in.d, active, first);
}

/// set: d becomes imm (all ones, or 1.0) where the comparison holds, else 0.
template <Cmp C, typename T>
void Set(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = Combine(warp, in, CompareRows<C, T>(warp, in, active));
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t yes = static_cast<uint32_t>(in.imm);
  ForLanes(active, [=](uint32_t lane) { d[lane] = ((value >> lane) & 1) != 0 ? yes : 0; });
}

template <template <Cmp, typename> typename Make, typename T>
Handler PickCompare(Cmp cmp) {
  switch (cmp) {
    case Cmp::kEq:
      return Make<Cmp::kEq, T>::kRun;
    case Cmp::kNe:
      return Make<Cmp::kNe, T>::kRun;
    case Cmp::kLt:
      return Make<Cmp::kLt, T>::kRun;
    case Cmp::kLe:
      return Make<Cmp::kLe, T>::kRun;
    case Cmp::kGt:
      return Make<Cmp::kGt, T>::kRun;
    case Cmp::kGe:
      return Make<Cmp::kGe, T>::kRun;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T> || std::is_empty_v<T>) {
    switch (cmp) {
      case Cmp::kEqu:
        return Make<Cmp::kEqu, T>::kRun;
      case Cmp::kNeu:
        return Make<Cmp::kNeu, T>::kRun;
      case Cmp::kLtu:
        return Make<Cmp::kLtu, T>::kRun;
      case Cmp::kLeu:
        return Make<Cmp::kLeu, T>::kRun;
      case Cmp::kGtu:
        return Make<Cmp::kGtu, T>::kRun;
      case Cmp::kGeu:
        return Make<Cmp::kGeu, T>::kRun;
      case Cmp::kNum:
        return Make<Cmp::kNum, T>::kRun;
      case Cmp::kNan:
        return Make<Cmp::kNan, T>::kRun;
      default:
        break;
    }
  }
  return nullptr;
}

template <Cmp C, typename T>
struct MakeSetp {
  static constexpr Handler kRun = Setp<C, T>;
};
template <Cmp C, typename T>
struct MakeSet {
  static constexpr Handler kRun = Set<C, T>;
};

template <template <Cmp, typename> typename Make>
Handler PickType(Type type, bool ftz, Cmp cmp) {
  switch (type) {
    case Type::kF32:
      return ftz ? PickCompare<Make, FtzTag>(cmp) : PickCompare<Make, float>(cmp);
    case Type::kF64:
      return PickCompare<Make, double>(cmp);
    case Type::kF16:
      return PickCompare<Make, HalfTag>(cmp);
    case Type::kBF16:
      return PickCompare<Make, BfloatTag>(cmp);
    case Type::kS16:
      return PickCompare<Make, int16_t>(cmp);
    case Type::kS32:
      return PickCompare<Make, int32_t>(cmp);
    case Type::kS64:
      return PickCompare<Make, int64_t>(cmp);
    case Type::kU16:
    case Type::kB16:
      return PickCompare<Make, uint16_t>(cmp);
    case Type::kU32:
    case Type::kB32:
      return PickCompare<Make, uint32_t>(cmp);
    case Type::kU64:
    case Type::kB64:
      return PickCompare<Make, uint64_t>(cmp);
    default:
      return nullptr;
  }
}

bool UseCombine(Decoder& decoder) {
  decoder.out.small = decoder.Has("and") ? 1 : decoder.Has("or") ? 2 : decoder.Has("xor") ? 3 : 0;
  if (decoder.out.small == 0) return decoder.OperandCount() == 3;
  if (decoder.OperandCount() != 4) return false;
  decoder.out.c = decoder.Source(3, Type::kPred);
  return true;
}

/// setp.f16x2 p|q, with one predicate per half; also set.f16x2, where `flags` is not 0. imm: Cmp.
template <bool kBfloat>
void SetpPair(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  uint32_t results[2] = {0, 0};
  ForLanes(active, [&](uint32_t lane) {
    for (uint32_t half = 0; half < 2; ++half) {
      const uint16_t x = static_cast<uint16_t>(a[lane] >> (16 * half));
      const uint16_t y = static_cast<uint16_t>(b[lane] >> (16 * half));
      const float u = kBfloat ? BfloatToFloat(x) : HalfToFloat(x);
      const float v = kBfloat ? BfloatToFloat(y) : HalfToFloat(y);
      const bool unordered = std::isnan(u) || std::isnan(v);
      bool r = false;
      switch (static_cast<Cmp>(in.imm)) {
        case Cmp::kEq:
          r = u == v;
          break;
        case Cmp::kNe:
          r = !unordered && u != v;
          break;
        case Cmp::kLt:
          r = u < v;
          break;
        case Cmp::kLe:
          r = u <= v;
          break;
        case Cmp::kGt:
          r = u > v;
          break;
        case Cmp::kGe:
          r = u >= v;
          break;
        case Cmp::kEqu:
          r = unordered || u == v;
          break;
        case Cmp::kNeu:
          r = u != v;
          break;
        case Cmp::kLtu:
          r = !(u >= v);
          break;
        case Cmp::kLeu:
          r = !(u > v);
          break;
        case Cmp::kGtu:
          r = !(u <= v);
          break;
        case Cmp::kGeu:
          r = !(u < v);
          break;
        case Cmp::kNum:
          r = !unordered;
          break;
        case Cmp::kNan:
          r = unordered;
          break;
        case Cmp::kNone:
          break;
      }
      results[half] |= uint32_t{r} << lane;
    }
  });
  if (in.flags != 0) {  // set.f16x2 puts both results into one register
    uint32_t* d = warp.Row<uint32_t>(in.d);
    const uint32_t yes = in.flags == 1 ? 0x3C00u : in.flags == 2 ? 0x3F80u : 0xFFFFu;
    const uint32_t low = Combine(warp, in, results[0]), high = Combine(warp, in, results[1]);
    ForLanes(active, [&](uint32_t lane) {
      d[lane] = ((low >> lane) & 1) * yes | (((high >> lane) & 1) * yes) << 16;
    });
    return;
  }
  const uint32_t first = Combine(warp, in, results[0]);
  const uint32_t second = Combine(warp, in, results[1]);
  warp.SetPred(in.d, active, first);
  if (in.e != kNoRef) warp.SetPred(in.e, active, second);
}

bool DecodeSetp(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  const Cmp cmp = CompareOf(decoder);
  if (cmp == Cmp::kNone || decoder.OperandCount() < 3 || !UseCombine(decoder)) return false;
  Insn& out = decoder.out;
  const bool pair = type == Type::kF16x2 || type == Type::kBF16x2;
  out.imm = static_cast<int64_t>(cmp);
  out.run = pair ? (type == Type::kF16x2 ? SetpPair<false> : SetpPair<true>)
                 : PickType<MakeSetp>(type, decoder.Has("ftz"), cmp);
  out.a = decoder.Source(1, type);
  out.b = decoder.Source(2, type);
  const ptx::Operand& to = decoder.Operand(0);
  if (to.kind == ptx::Operand::Kind::kPair) {
    out.d = decoder.Destination(to.children[0], Type::kPred);
    out.e = decoder.Destination(to.children[1], Type::kPred);
  } else {
    out.d = decoder.Destination(to, Type::kPred);
  }
  return out.run != nullptr;
}

bool DecodeSet(Decoder& decoder) {
  const Type result = decoder.TypeAt(0);
  const Type type = decoder.TypeAt(1);
  const Cmp cmp = CompareOf(decoder);
  if (cmp == Cmp::kNone || decoder.OperandCount() < 3 || !UseCombine(decoder)) return false;
  Insn& out = decoder.out;
  if (type == Type::kF16x2 || type == Type::kBF16x2) {
    out.imm = static_cast<int64_t>(cmp);
    out.flags = result == Type::kF16x2 ? 1 : result == Type::kBF16x2 ? 2 : 3;
    out.run = type == Type::kF16x2 ? SetpPair<false> : SetpPair<true>;
  } else {
    out.imm = result == Type::kF32     ? 0x3F800000
              : result == Type::kF16   ? 0x3C00
              : result == Type::kBF16  ? 0x3F80
              : TypeBytes(result) == 2 ? 0xFFFF
                                       : 0xFFFFFFFF;
    out.run = PickType<MakeSet>(type, decoder.Has("ftz"), cmp);
  }
  out.a = decoder.Source(1, type);
  out.b = decoder.Source(2, type);
  out.d = decoder.Destination(0, result);
  return out.run != nullptr;
}

template <typename Cell>
void Selp(Warp& warp, const Insn& in, uint32_t active) {
  Cell* d = warp.Row<Cell>(in.d);
  const Cell* a = warp.Row<Cell>(in.a);
  const Cell* b = warp.Row<Cell>(in.b);
  const uint32_t p = warp.Pred(in.c);
  ForLanes(active, [=](uint32_t lane) { d[lane] = ((p >> lane) & 1) != 0 ? a[lane] : b[lane]; });
}

bool DecodeSelp(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 4 || CellBytes(type) > 8) return false;
  Insn& out = decoder.out;
  out.a = decoder.Source(1, type);
  out.b = decoder.Source(2, type);
  out.c = decoder.Source(3, Type::kPred);
  out.d = decoder.Destination(0, type);
  out.run = CellBytes(type) == 8 ? Selp<uint64_t> : Selp<uint32_t>;
  return true;
}

template <typename Cell, typename C>
void Slct(Warp& warp, const Insn& in, uint32_t active) {
  Cell* d = warp.Row<Cell>(in.d);
  const Cell* a = warp.Row<Cell>(in.a);
  const Cell* b = warp.Row<Cell>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const bool ftz = in.flags != 0;
  ForLanes(active, [=](uint32_t lane) {
    uint32_t bits = c[lane];
    if (ftz && (bits & 0x7F800000u) == 0) bits &= 0x80000000u;
    d[lane] = std::bit_cast<C>(bits) >= C{0} ? a[lane] : b[lane];
  });
}

bool DecodeSlct(Decoder& decoder) {
  const Type type = decoder.TypeAt(0), by = decoder.TypeAt(1);
  if (decoder.OperandCount() != 4 || (by != Type::kF32 && by != Type::kS32)) return false;
  Insn& out = decoder.out;
  out.flags = decoder.Has("ftz");
  out.a = decoder.Source(1, type);
  out.b = decoder.Source(2, type);
  out.c = decoder.Source(3, by);
  out.d = decoder.Destination(0, type);
  const bool wide = CellBytes(type) == 8;
  out.run = by == Type::kF32 ? (wide ? Slct<uint64_t, float> : Slct<uint32_t, float>)
                             : (wide ? Slct<uint64_t, int32_t> : Slct<uint32_t, int32_t>);
  return true;
}

template <typename T>
void Testp(Warp& warp, const Insn& in, uint32_t active) {
  const auto* a = warp.Row<CellOf<T>>(in.a);
  uint32_t result = 0;
  ForLanes(active, [&](uint32_t lane) {
    const int kind = std::fpclassify(ReadCell<T>(a, lane));
    bool is = false;
    switch (in.small) {
      case 0:
        is = kind != FP_INFINITE && kind != FP_NAN;
        break;
      case 1:
        is = kind == FP_INFINITE;
        break;
      case 2:
        is = kind != FP_NAN;
        break;
      case 3:
        is = kind == FP_NAN;
        break;
      case 4:
        is = kind == FP_NORMAL || kind == FP_ZERO;
        break;
      default:
        is = kind == FP_SUBNORMAL;
        break;
    }
    result |= uint32_t{is} << lane;
  });
  warp.SetPred(in.d, active, result);
}

bool DecodeTestp(Decoder& decoder) {
  static constexpr const char* kTests[] = {"finite",     "infinite", "number",
                                           "notanumber", "normal",   "subnormal"};
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 2) return false;
  for (uint16_t i = 0; i < 6; ++i) {
    if (decoder.Has(kTests[i])) decoder.out.small = i;
  }
  decoder.out.a = decoder.Source(1, type);
  decoder.out.d = decoder.Destination(0, Type::kPred);
  decoder.out.run = type == Type::kF64 ? Testp<double> : Testp<float>;
  return true;
}

}  // namespace

void AddCompareOps(OpTable& table) {
  table["setp"] = DecodeSetp;
  table["set"] = DecodeSet;
  table["selp"] = DecodeSelp;
  table["slct"] = DecodeSlct;
  table["testp"] = DecodeTestp;
}

}  // namespace cupola::sim
