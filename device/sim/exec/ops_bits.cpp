// Logic, shifts, bit fields and byte permutation [PTX ISA 9.7.8, 9.7.1.11-22].
#include <algorithm>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct CNot {
  template <typename T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};

/// A shift amount beyond the width of the value counts as the width.
struct Shl {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    return b >= sizeof(T) * 8 ? 0 : static_cast<T>(a << b);
  }
};
struct Shr {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    if (b >= sizeof(T) * 8) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};

struct Popc {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct Clz {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Brev {
  template <typename T>
  T operator()(T a) const {
    T result = 0;
    for (uint32_t i = 0; i < sizeof(T) * 8; ++i)
      result = static_cast<T>(result << 1 | ((a >> i) & 1));
    return result;
  }
};
template <bool kShiftAmount>
struct Bfind {
  template <typename T>
  uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (bits == 0) return 0xFFFFFFFFu;
    const uint32_t top = sizeof(T) * 8 - 1 - static_cast<uint32_t>(std::countl_zero(bits));
    return kShiftAmount ? sizeof(T) * 8 - 1 - top : top;
  }
};
struct Bfe {
  template <typename T>
  T operator()(T a, uint32_t b, uint32_t c) const {
    constexpr uint32_t kTop = sizeof(T) * 8 - 1;
    const uint32_t pos = b & 0xFF, len = c & 0xFF;
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(a);
    const bool sign =
        std::is_signed_v<T> && len != 0 && ((bits >> std::min(pos + len - 1, kTop)) & 1);
    const U field = pos > kTop ? 0 : bits >> pos;
    if (len > kTop) {
      // The field reaches beyond the value; the bits there are copies of the sign.
      if (!sign || pos == 0) return static_cast<T>(field);
      return static_cast<T>(pos > kTop ? ~U{0} : static_cast<U>(field | ~(~U{0} >> pos)));
    }
    const U mask = (U{1} << len) - 1;
    U value = field & mask;
    if (sign) {
      value |= ~mask;
      if (pos > kTop)
        value = ~U{0};
      else if (pos != 0)
        value |= ~(~U{0} >> pos);
    }
    return static_cast<T>(value);
  }
};
struct Szext {  // serves szext.clamp; for szext.wrap the position is masked first
  template <typename T>
  T operator()(T a, uint32_t n) const {
    if (n >= 32) return a;
    if (n == 0) return 0;
    const uint32_t shift = 32 - n;
    return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << shift) >> shift);
  }
};
struct SzextWrap {
  template <typename T>
  T operator()(T a, uint32_t n) const {
    return Szext{}(a, n & 31);
  }
};
template <bool kWrap>
struct Bmsk {
  uint32_t operator()(uint32_t pos, uint32_t len) const {
    if (kWrap) {
      pos &= 31;
      len &= 31;
    }
    if (pos >= 32) return 0;
    const uint64_t mask = len >= 32 ? 0xFFFFFFFFull : (1ull << len) - 1;
    return static_cast<uint32_t>(mask << pos);
  }
};

template <typename T>
void Bfi(Warp& warp, const Insn& in, uint32_t active) {
  T* d = warp.Row<T>(in.d);
  const T* a = warp.Row<T>(in.a);
  const T* b = warp.Row<T>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const uint32_t* e = warp.Row<uint32_t>(in.e);
  constexpr uint32_t kBits = sizeof(T) * 8;
  ForLanes(active, [=](uint32_t lane) {
    const uint32_t pos = c[lane] & 0xFF, len = e[lane] & 0xFF;
    if (pos >= kBits || len == 0) {
      d[lane] = b[lane];
      return;
    }
    const T field = (len >= kBits ? ~T{0} : (T{1} << len) - 1) << pos;
    d[lane] = (b[lane] & ~field) | ((a[lane] << pos) & field);
  });
}

bool DecodeBfi(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 5) return false;
  Insn& out = decoder.out;
  out.a = decoder.Source(1, type);
  out.b = decoder.Source(2, type);
  out.c = decoder.Source(3, Type::kU32);
  out.e = decoder.Source(4, Type::kU32);
  out.d = decoder.Destination(0, type);
  out.run = CellBytes(type) == 8 ? Bfi<uint64_t> : Bfi<uint32_t>;
  return true;
}

// ---- three-input logic, funnel shift, permutation ----

void Lop3(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const uint32_t table = static_cast<uint32_t>(in.imm);
  ForLanes(active, [=](uint32_t lane) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      if (((table >> i) & 1) == 0) continue;
      result |= ((i & 4) ? a[lane] : ~a[lane]) & ((i & 2) ? b[lane] : ~b[lane]) &
                ((i & 1) ? c[lane] : ~c[lane]);
    }
    d[lane] = result;
  });
}

/// lop3.or.b32 d|p, a, b, c, table, q: p = (d != 0) or q; flags: 1 or, 2 and; list: row of q.
void Lop3Predicate(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t q = warp.Pred(in.list);
  Lop3(warp, in, active);
  const uint32_t* d = warp.Row<uint32_t>(in.d);
  uint32_t result = 0;
  ForLanes(active, [&](uint32_t lane) { result |= uint32_t{d[lane] != 0} << lane; });
  warp.SetPred(in.e, active, in.flags == 1 ? result | q : result & q);
}

bool DecodeLop3(Decoder& decoder) {
  Insn& out = decoder.out;
  const bool either = decoder.Has("or"), both = decoder.Has("and");
  if (either || both) {
    const ptx::Operand& to = decoder.Operand(0);
    if (decoder.OperandCount() != 6 || to.kind != ptx::Operand::Kind::kPair) return false;
    out.imm = decoder.Operand(4).integer;
    out.a = decoder.Source(1, Type::kB32);
    out.b = decoder.Source(2, Type::kB32);
    out.c = decoder.Source(3, Type::kB32);
    out.list = decoder.Source(5, Type::kPred);
    out.d = decoder.Destination(to.children[0], Type::kB32);
    out.e = decoder.Destination(to.children[1], Type::kPred);
    out.flags = either ? 1 : 2;
    out.run = Lop3Predicate;
    return true;
  }
  if (decoder.OperandCount() != 5) return false;
  out.imm = decoder.Operand(4).integer;
  out.a = decoder.Source(1, Type::kB32);
  out.b = decoder.Source(2, Type::kB32);
  out.c = decoder.Source(3, Type::kB32);
  out.d = decoder.Destination(0, Type::kB32);
  out.run = Lop3;
  return true;
}

template <bool kLeft, bool kWrap>
struct Funnel {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint32_t n = kWrap ? c & 31 : (c > 32 ? 32 : c);
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(kLeft ? (both << n) >> 32 : both >> n);
  }
};

bool DecodeShf(Decoder& decoder) {
  const bool left = decoder.Has("l"), wrap = decoder.Has("wrap");
  using U = uint32_t;
  return Simple(
      decoder, Type::kB32,
      left ? (wrap ? Map3<U, U, U, U, Funnel<true, true>> : Map3<U, U, U, U, Funnel<true, false>>)
           : (wrap ? Map3<U, U, U, U, Funnel<false, true>>
                   : Map3<U, U, U, U, Funnel<false, false>>));
}

/// small: 0 generic, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
void Prmt(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const uint16_t mode = in.small;
  ForLanes(active, [=](uint32_t lane) {
    const uint64_t bytes = uint64_t{b[lane]} << 32 | a[lane];
    const uint32_t select = c[lane];
    const uint32_t n = select & 3;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t pick = 0;
      switch (mode) {
        case 1:
          pick = (n + i) & 7;
          break;
        case 2:
          pick = (n - i) & 7;
          break;
        case 3:
          pick = n;
          break;
        case 4:
          pick = std::max(n, i);
          break;
        case 5:
          pick = std::min(n, i);
          break;
        case 6:
          pick = (n & 1) * 2 + (i & 1);
          break;
        default:
          pick = (select >> (4 * i)) & 0xF;
          break;
      }
      uint32_t byte = (bytes >> ((pick & 7) * 8)) & 0xFF;
      if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
      result |= byte << (8 * i);
    }
    d[lane] = result;
  });
}

bool DecodePrmt(Decoder& decoder) {
  static constexpr const char* kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  if (!Simple(decoder, Type::kB32, Prmt)) return false;
  for (uint16_t i = 1; i < 7; ++i) {
    if (decoder.Has(kModes[i])) decoder.out.small = i;
  }
  return decoder.OperandCount() == 4;
}

struct Fns {  // find the n-th set bit [9.7.1.19]
  uint32_t operator()(uint32_t mask, uint32_t base, int32_t offset) const {
    if (offset == 0) return base < 32 && ((mask >> base) & 1) ? base : 0xFFFFFFFFu;
    int64_t pos = base;
    int32_t left = offset > 0 ? offset : -offset;
    for (; pos >= 0 && pos<32; pos += offset> 0 ? 1 : -1) {
      if (((mask >> pos) & 1) != 0 && --left == 0) return static_cast<uint32_t>(pos);
    }
    return 0xFFFFFFFFu;
  }
};

// ---- decoding ----

template <uint32_t (*kCombine)(uint32_t, uint32_t)>
void PredicateLogic(Warp& warp, const Insn& in, uint32_t active) {
  warp.SetPred(in.d, active, kCombine(warp.Pred(in.a), warp.Pred(in.b)));
}
uint32_t PredAnd(uint32_t a, uint32_t b) { return a & b; }
uint32_t PredOr(uint32_t a, uint32_t b) { return a | b; }
uint32_t PredXor(uint32_t a, uint32_t b) { return a ^ b; }

template <typename Op, uint32_t (*kCombine)(uint32_t, uint32_t)>
bool DecodeLogic(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type == Type::kPred) return Simple(decoder, type, PredicateLogic<kCombine>);
  return Simple(decoder, type,
                PickBits(type, []<typename T>() -> Handler { return Map2<T, T, T, Op>; }));
}

bool DecodeNot(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type == Type::kPred) return Simple(decoder, type, RunNotPredicate);
  return Simple(decoder, type,
                PickBits(type, []<typename T>() -> Handler { return Map1<T, T, Not>; }));
}

bool DecodeCNot(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type,
                PickBits(type, []<typename T>() -> Handler { return Map1<T, T, CNot>; }));
}

template <typename Op>
Handler PickShift(Type type) {
  const auto pick = []<typename T>() -> Handler { return Map2<T, T, uint32_t, Op>; };
  return IsSigned(type) ? PickInteger(type, pick) : PickBits(type, pick);
}

/// Decodes an instruction of which a has type `type`, d has type `result`, and further operands are
/// u32.
bool SimpleU32(Decoder& decoder, Type type, Type result, Handler handler) {
  if (handler == nullptr || decoder.OperandCount() < 2) return false;
  Insn& out = decoder.out;
  out.run = handler;
  out.a = decoder.Source(1, type);
  if (decoder.OperandCount() > 2) out.b = decoder.Source(2, Type::kU32);
  if (decoder.OperandCount() > 3) out.c = decoder.Source(3, Type::kU32);
  out.d = decoder.Destination(0, result);
  return true;
}

template <typename Op>
bool DecodeShift(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return SimpleU32(decoder, type, type, PickShift<Op>(type));
}

template <typename Op>
bool DecodeCount(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return SimpleU32(
      decoder, type, Type::kU32,
      TypeBytes(type) == 8 ? Map1<uint32_t, uint64_t, Op> : Map1<uint32_t, uint32_t, Op>);
}

bool DecodeBrev(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return Simple(decoder, type,
                PickBits(type, []<typename T>() -> Handler { return Map1<T, T, Brev>; }));
}

bool DecodeBfind(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  const bool shift = decoder.Has("shiftamt");
  return SimpleU32(decoder, type, Type::kU32, PickInteger(type, [shift]<typename T>() -> Handler {
                     return shift ? Map1<uint32_t, T, Bfind<true>>
                                  : Map1<uint32_t, T, Bfind<false>>;
                   }));
}

bool DecodeBfe(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  return SimpleU32(decoder, type, type, PickInteger(type, []<typename T>() -> Handler {
                     return Map3<T, T, uint32_t, uint32_t, Bfe>;
                   }));
}

bool DecodeSzext(Decoder& decoder) {
  const bool wrap = decoder.Has("wrap");
  if (decoder.TypeAt(0) == Type::kS32) {
    return Simple(decoder, Type::kB32,
                  wrap ? Map2<int32_t, int32_t, uint32_t, SzextWrap>
                       : Map2<int32_t, int32_t, uint32_t, Szext>);
  }
  return Simple(decoder, Type::kB32,
                wrap ? Map2<uint32_t, uint32_t, uint32_t, SzextWrap>
                     : Map2<uint32_t, uint32_t, uint32_t, Szext>);
}

bool DecodeBmsk(Decoder& decoder) {
  using U = uint32_t;
  return Simple(decoder, Type::kB32,
                decoder.Has("wrap") ? Map2<U, U, U, Bmsk<true>> : Map2<U, U, U, Bmsk<false>>);
}

bool DecodeFns(Decoder& decoder) {
  return Simple(decoder, Type::kB32, Map3<uint32_t, uint32_t, uint32_t, int32_t, Fns>);
}

}  // namespace

void AddBitOps(OpTable& table) {
  table["and"] = DecodeLogic<And, PredAnd>;
  table["or"] = DecodeLogic<Or, PredOr>;
  table["xor"] = DecodeLogic<Xor, PredXor>;
  table["not"] = DecodeNot;
  table["cnot"] = DecodeCNot;
  table["shl"] = DecodeShift<Shl>;
  table["shr"] = DecodeShift<Shr>;
  table["popc"] = DecodeCount<Popc>;
  table["clz"] = DecodeCount<Clz>;
  table["brev"] = DecodeBrev;
  table["bfind"] = DecodeBfind;
  table["bfe"] = DecodeBfe;
  table["bfi"] = DecodeBfi;
  table["szext"] = DecodeSzext;
  table["bmsk"] = DecodeBmsk;
  table["lop3"] = DecodeLop3;
  table["shf"] = DecodeShf;
  table["prmt"] = DecodePrmt;
  table["fns"] = DecodeFns;
}

}  // namespace cupola::sim
