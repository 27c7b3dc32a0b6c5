// Matrices over a warp: ldmatrix, stmatrix, mma.sync and wmma [PTX ISA 9.7.14]. Products are summed
// in double and rounded once to the accumulator's type, so the order of summation does not show;
// a GPU may differ in the last bits. A wmma fragment's layout is ours, as the ISA leaves it open.
#include <cstring>

#include "device/sim/exec/half.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

struct Spot {
  uint32_t row, column;
};

double ReadElement(Type type, uint32_t word, uint32_t index) {
  switch (type) {
    case Type::kF16:
      return HalfToFloat(static_cast<uint16_t>(word >> (16 * index)));
    case Type::kBF16:
      return BfloatToFloat(static_cast<uint16_t>(word >> (16 * index)));
    case Type::kS8:
      return static_cast<int8_t>(word >> (8 * index));
    case Type::kU8:
      return static_cast<uint8_t>(word >> (8 * index));
    case Type::kS32:
      return static_cast<int32_t>(word);
    default:
      return std::bit_cast<float>(word);
  }
}

uint32_t PutElement(Type type, uint32_t word, uint32_t index, double value) {
  switch (type) {
    case Type::kF16: {
      const uint32_t shift = 16 * index;
      return (word & ~(0xFFFFu << shift)) | uint32_t{RoundToHalf(value)} << shift;
    }
    case Type::kS32:
      return static_cast<uint32_t>(static_cast<int64_t>(value));
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

uint32_t PerWord(Type type) {
  if (type == Type::kS8 || type == Type::kU8) return 4;
  return type == Type::kF16 || type == Type::kBF16 ? 2 : 1;
}

/// Where element `i` of lane `lane` lies in A (16 x k), by the width of the elements [9.7.14.5].
Spot PlaceA(uint32_t lane, uint32_t i, uint32_t per_word) {
  const uint32_t word = i / per_word;
  return {lane / 4 + (word & 1) * 8,
          (lane % 4) * per_word + i % per_word + (word / 2) * 4 * per_word};
}
/// ... in B (k x 8).
Spot PlaceB(uint32_t lane, uint32_t i, uint32_t per_word) {
  const uint32_t word = i / per_word;
  return {(lane % 4) * per_word + i % per_word + word * 4 * per_word, lane / 4};
}
/// ... in C and D (16 x 8).
Spot PlaceC(uint32_t lane, uint32_t i) {
  return {lane / 4 + (i / 2) * 8, (lane % 4) * 2 + (i & 1)};
}

/// list: types of a, b, c, d; k; numbers of registers of d, a, b, c; then the Refs.
void Mma(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* list = &warp.block->program->lists[in.list];
  const Type ta = static_cast<Type>(list[0]), tb = static_cast<Type>(list[1]);
  const Type tc = static_cast<Type>(list[2]), td = static_cast<Type>(list[3]);
  const uint32_t k = list[4];
  const uint32_t *counts = list + 5, *rd = list + 9, *ra = rd + counts[0], *rb = ra + counts[1],
                 *rc = rb + counts[2];
  if (active != kFullMask) {
    warp.Raise(FaultKind::kIllegalInstruction, static_cast<uint32_t>(std::countr_zero(active)),
               "a matrix instruction needs all lanes of the warp");
    return;
  }
  double a[16][32], b[32][8], c[16][8];
  const uint32_t pa = PerWord(ta), pb = PerWord(tb), pc = PerWord(tc), pd = PerWord(td);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < counts[1] * pa; ++i) {
      const Spot s = PlaceA(lane, i, pa);
      a[s.row][s.column] = ReadElement(ta, warp.Row<uint32_t>(ra[i / pa])[lane], i % pa);
    }
    for (uint32_t i = 0; i < counts[2] * pb; ++i) {
      const Spot s = PlaceB(lane, i, pb);
      b[s.row][s.column] = ReadElement(tb, warp.Row<uint32_t>(rb[i / pb])[lane], i % pb);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      const Spot s = PlaceC(lane, i);
      c[s.row][s.column] = ReadElement(tc, warp.Row<uint32_t>(rc[i / pc])[lane], i % pc);
    }
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      const Spot s = PlaceC(lane, i);
      double sum = c[s.row][s.column];
      for (uint32_t j = 0; j < k; ++j) sum += a[s.row][j] * b[j][s.column];
      uint32_t* word = &warp.Row<uint32_t>(rd[i / pd])[lane];
      *word = PutElement(td, *word, i % pd, sum);
    }
  }
}

bool DecodeMma(Decoder& decoder) {
  uint32_t k = 0;
  for (const uint32_t known : {8u, 16u, 32u}) {
    if (decoder.Has("m16n8k" + std::to_string(known))) k = known;
  }
  if (k == 0 || decoder.OperandCount() != 4 || decoder.Has("sp") || decoder.Has("satfinite"))
    return false;
  std::vector<Type> types;
  for (const std::string& modifier : decoder.in().modifiers) {
    Type type = ParseType(modifier);
    if (modifier == "tf32") type = Type::kF32;
    if (type != Type::kNone) types.push_back(type);
  }
  if (types.size() != 4 || decoder.Has("b1")) return false;
  const Type td = types[0], ta = types[1], tb = types[2], tc = types[3];
  std::vector<uint32_t> refs, counts;
  for (size_t n = 0; n < 4; ++n) {
    const auto& children = decoder.Operand(n).children;
    counts.push_back(static_cast<uint32_t>(children.size()));
    for (const auto& child : children) {
      refs.push_back(n == 0 ? decoder.Destination(child, Type::kB32)
                            : decoder.Source(child, Type::kB32));
    }
  }
  if (counts[1] * PerWord(ta) != k / 2 || counts[2] * PerWord(tb) != k / 4 ||
      counts[3] * PerWord(tc) != 4 || counts[0] * PerWord(td) != 4) {
    return false;
  }
  std::vector<uint32_t> list = {static_cast<uint32_t>(ta), static_cast<uint32_t>(tb),
                                static_cast<uint32_t>(tc), static_cast<uint32_t>(td), k};
  list.insert(list.end(), counts.begin(), counts.end());
  list.insert(list.end(), refs.begin(), refs.end());
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = Mma;
  return true;
}

// ---- ldmatrix, stmatrix: 8 x 8 matrices of 16-bit elements ----

/// flags bit 6: transposed, bit 7: store; small: matrices; list: Refs.
template <bool kStore>
void MatrixMove(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const uint32_t* refs = &warp.block->program->lists[in.list];
  const bool transposed = (in.flags & 0x40) != 0;
  for (uint32_t m = 0; m < in.small; ++m) {
    uint16_t* rows[8];
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t lane = m * 8 + r;
      const uint64_t at = address(lane);
      const bool generic = static_cast<Space>(in.e) == Space::kGeneric;
      rows[r] = reinterpret_cast<uint16_t*>(generic ? warp.Generic(at, 16, lane)
                                                    : warp.Shared(at, 16, lane));
      if (rows[r] == nullptr) return;
    }
    uint32_t* d = warp.Row<uint32_t>(refs[m]);
    ForLanes(active, [&](uint32_t lane) {
      const uint32_t i = lane / 4, j = lane % 4 * 2;
      uint16_t* low = transposed ? &rows[j][i] : &rows[i][j];
      uint16_t* high = transposed ? &rows[j + 1][i] : &rows[i][j + 1];
      if (kStore) {
        *low = static_cast<uint16_t>(d[lane]);
        *high = static_cast<uint16_t>(d[lane] >> 16);
      } else {
        d[lane] = *low | uint32_t{*high} << 16;
      }
    });
  }
}

bool DecodeMatrixMove(Decoder& decoder, bool store) {
  if (!decoder.Has("m8n8") || decoder.TypeAt(0) != Type::kB16 || decoder.OperandCount() != 2)
    return false;
  Insn& out = decoder.out;
  out.small = decoder.Has("x4") ? 4 : decoder.Has("x2") ? 2 : 1;
  const ptx::Operand& registers = decoder.Operand(store ? 1 : 0);
  std::vector<ptx::Operand> list = registers.children;
  if (list.empty()) list = {registers};
  if (list.size() != out.small) return false;
  std::vector<uint32_t> refs;
  for (const auto& r : list)
    refs.push_back(store ? decoder.Source(r, Type::kB32) : decoder.Destination(r, Type::kB32));
  decoder.UseAddress(decoder.Operand(store ? 0 : 1));
  out.list = decoder.AddList(refs);
  out.e = static_cast<uint32_t>(SpaceOf(decoder.in()));
  if (decoder.Has("trans")) out.flags |= 0x40;
  out.run = store ? MatrixMove<true> : MatrixMove<false>;
  return true;
}

bool DecodeLdmatrix(Decoder& decoder) { return DecodeMatrixMove(decoder, false); }
bool DecodeStmatrix(Decoder& decoder) { return DecodeMatrixMove(decoder, true); }

// ---- wmma: lane l holds the elements l * n ... of the matrix, row after row ----

struct WmmaShape {
  uint32_t m = 0, n = 0, k = 0;
};

WmmaShape ShapeOf(const Decoder& decoder) {
  if (decoder.Has("m16n16k16")) return {16, 16, 16};
  if (decoder.Has("m32n8k16")) return {32, 8, 16};
  if (decoder.Has("m8n32k16")) return {8, 32, 16};
  return {};
}

/// list: rows, columns, Type, Space, column-major, registers, Refs...; b: stride in elements.
template <bool kStore>
void WmmaMove(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const uint32_t* list = &warp.block->program->lists[in.list];
  const uint32_t rows = list[0], columns = list[1];
  const Type type = static_cast<Type>(list[2]);
  const uint32_t bytes = type == Type::kF32 || type == Type::kS32 ? 4 : 2, per_word = 4 / bytes;
  const uint32_t own = rows * columns / kLanes;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t stride =
        in.b == kNoRef ? (list[4] != 0 ? rows : columns) : warp.Row<uint32_t>(in.b)[lane];
    for (uint32_t i = 0; i < own; ++i) {
      const uint32_t row = (lane * own + i) / columns, column = (lane * own + i) % columns;
      const uint64_t at = address(lane) + uint64_t{bytes} * (list[4] != 0 ? column * stride + row
                                                                          : row * stride + column);
      uint8_t* p = ResolveIn(static_cast<Space>(list[3]), warp, at, bytes, lane);
      if (p == nullptr) return;
      uint32_t* word = &warp.Row<uint32_t>(list[6 + i / per_word])[lane];
      if (kStore) {
        const uint32_t value = *word >> (i % per_word * 16);
        std::memcpy(p, &value, bytes);
      } else {
        uint32_t value = 0;
        std::memcpy(&value, p, bytes);
        *word = per_word == 1 || i % per_word == 0 ? value : *word | value << 16;
      }
    }
  });
}

bool DecodeWmmaMove(Decoder& decoder, bool store) {
  const WmmaShape shape = ShapeOf(decoder);
  const Type type = decoder.TypeAt(0);
  const bool is_a = decoder.Has("a"), is_b = decoder.Has("b");
  if (shape.m == 0 || (type != Type::kF16 && type != Type::kF32 && type != Type::kBF16))
    return false;
  const uint32_t rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
  const auto& registers = decoder.Operand(store ? 1 : 0).children;
  const uint32_t own = rows * columns / kLanes;
  if (registers.size() * (type == Type::kF32 ? 1 : 2) < own) return false;
  std::vector<uint32_t> list = {rows,
                                columns,
                                static_cast<uint32_t>(type),
                                static_cast<uint32_t>(SpaceOf(decoder.in())),
                                decoder.Has("col"),
                                static_cast<uint32_t>(registers.size())};
  for (const auto& r : registers)
    list.push_back(store ? decoder.Source(r, Type::kB32) : decoder.Destination(r, Type::kB32));
  decoder.UseAddress(decoder.Operand(store ? 0 : 1));
  if (decoder.OperandCount() > 2) decoder.out.b = decoder.Source(2, Type::kU32);
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = store ? WmmaMove<true> : WmmaMove<false>;
  return true;
}

/// list: m, n, k, types of d, a, c; numbers of registers of d, a, b, c; Refs.
void WmmaMultiply(Warp& warp, const Insn& in, uint32_t) {
  const uint32_t* list = &warp.block->program->lists[in.list];
  const uint32_t m = list[0], n = list[1], k = list[2];
  const Type td = static_cast<Type>(list[3]), ta = static_cast<Type>(list[4]),
             tc = static_cast<Type>(list[5]);
  const uint32_t *counts = list + 6, *rd = list + 10, *ra = rd + counts[0], *rb = ra + counts[1],
                 *rc = rb + counts[2];
  const auto read = [&warp](const uint32_t* refs, Type type, uint32_t own, uint32_t index) {
    const uint32_t lane = index / own, i = index % own, per = PerWord(type);
    return ReadElement(type, warp.Row<uint32_t>(refs[i / per])[lane], i % per);
  };
  std::vector<double> d(size_t{m} * n);
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      double sum = read(rc, tc, m * n / kLanes, row * n + column);
      for (uint32_t j = 0; j < k; ++j) {
        sum += read(ra, ta, m * k / kLanes, row * k + j) *
               read(rb, ta, k * n / kLanes, j * n + column);
      }
      d[size_t{row} * n + column] = sum;
    }
  }
  const uint32_t own = m * n / kLanes, per = PerWord(td);
  for (uint32_t index = 0; index < m * n; ++index) {
    uint32_t* word = &warp.Row<uint32_t>(rd[index % own / per])[index / own];
    *word = PutElement(td, *word, index % own % per, d[index]);
  }
}

bool DecodeWmma(Decoder& decoder) {
  if (decoder.Has("load")) return DecodeWmmaMove(decoder, false);
  if (decoder.Has("store")) return DecodeWmmaMove(decoder, true);
  const WmmaShape shape = ShapeOf(decoder);
  if (shape.m == 0 || decoder.OperandCount() != 4 || decoder.Has("satfinite")) return false;
  // wmma.mma.sync.aligned.row.col.shape.d.c for f16; .d.a.b.c for other inputs.
  const bool four = decoder.TypeAt(2) != Type::kNone;
  const Type td = decoder.TypeAt(0), ta = four ? decoder.TypeAt(1) : Type::kF16;
  const Type tc = four ? decoder.TypeAt(3) : decoder.TypeAt(1);
  for (const Type t : {td, tc}) {
    if (t != Type::kF16 && t != Type::kF32) return false;
  }
  if (ta != Type::kF16 && ta != Type::kBF16) return false;
  std::vector<uint32_t> refs, counts;
  for (size_t i = 0; i < 4; ++i) {
    counts.push_back(static_cast<uint32_t>(decoder.Operand(i).children.size()));
    for (const auto& r : decoder.Operand(i).children) {
      refs.push_back(i == 0 ? decoder.Destination(r, Type::kB32) : decoder.Source(r, Type::kB32));
    }
  }
  std::vector<uint32_t> list = {shape.m,
                                shape.n,
                                shape.k,
                                static_cast<uint32_t>(td),
                                static_cast<uint32_t>(ta),
                                static_cast<uint32_t>(tc)};
  list.insert(list.end(), counts.begin(), counts.end());
  list.insert(list.end(), refs.begin(), refs.end());
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = WmmaMultiply;
  return true;
}

}  // namespace

void AddMatrixOps(OpTable& table) {
  table["mma"] = DecodeMma;
  table["ldmatrix"] = DecodeLdmatrix;
  table["stmatrix"] = DecodeStmatrix;
  table["wmma"] = DecodeWmma;
}

}  // namespace cupola::sim
