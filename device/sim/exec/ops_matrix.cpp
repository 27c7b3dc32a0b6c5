// Matrices over a warp: ldmatrix, stmatrix, movmatrix and mma.sync [PTX ISA 9.7.14.5]. Products are
// summed in double and rounded once to the accumulator's type, so the order of summation does not
// show; a GPU may differ in the last bits. Integers and f64 are exact. For wmma see ops_wmma.cpp.
#include <cstring>

#include "device/sim/exec/lanes.h"
#include "device/sim/exec/matrix.h"

namespace cupola::sim {
namespace {

struct Spot {
  uint32_t row, column;
};

/// The row and column in A (m x k) of element `i` of lane `lane` [9.7.14.5]; `per_word` is the
/// number of elements in a register. A matrix of 8 rows has no second half of rows.
Spot PlaceA(uint32_t m, uint32_t lane, uint32_t i, uint32_t per_word) {
  const uint32_t word = i / per_word, halves = m / 8;
  return {lane / 4 + word % halves * 8,
          (lane % 4) * per_word + i % per_word + word / halves * 4 * per_word};
}
/// The same in B (k x 8).
Spot PlaceB(uint32_t lane, uint32_t i, uint32_t per_word) {
  const uint32_t word = i / per_word;
  return {(lane % 4) * per_word + i % per_word + word * 4 * per_word, lane / 4};
}
/// The same in C and D (m x 8).
Spot PlaceC(uint32_t lane, uint32_t i) {
  return {lane / 4 + (i / 2) * 8, (lane % 4) * 2 + (i & 1)};
}

/// One element of D. For f64, each product is fused with the sum in turn; integer sums are exact;
/// other products are summed in double.
double Dot(Element element, const double* a, const double* b, uint32_t k, bool bit_and,
           double sum) {
  if (element == Element::kF64) {
    for (uint32_t j = 0; j < k; ++j) sum = std::fma(a[j], b[j], sum);
    return sum;
  }
  if (element == Element::kB1) {
    for (uint32_t j = 0; j < k; ++j) sum += bit_and ? a[j] * b[j] : a[j] != b[j];
    return sum;
  }
  for (uint32_t j = 0; j < k; ++j) sum += a[j] * b[j];
  return sum;
}

/// mma. list: Element of a, b, c, d; m; k; numbers of registers of d, a, b, c; then their Refs.
/// flags: 1 saturate, 2 the product of bits is "and".
void Mma(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* list = &warp.block->program->lists[in.list];
  const Element ea = static_cast<Element>(list[0]), eb = static_cast<Element>(list[1]);
  const Element ec = static_cast<Element>(list[2]), ed = static_cast<Element>(list[3]);
  const uint32_t m = list[4], k = list[5];
  const uint32_t *counts = list + 6, *rd = list + 10, *ra = rd + counts[0], *rb = ra + counts[1],
                 *rc = rb + counts[2];
  if (active != kFullMask) {
    warp.Raise(FaultKind::kIllegalInstruction, static_cast<uint32_t>(std::countr_zero(active)),
               "a matrix instruction needs all lanes of the warp");
    return;
  }
  std::vector<double> a(size_t{m} * k), b(size_t{8} * k);  // a: row by row, b: column by column
  double c[16][8];
  const uint32_t pa = PerWord(ea), pb = PerWord(eb), own = m / 4;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < counts[1] * pa; ++i) {
      const Spot s = PlaceA(m, lane, i, pa);
      a[s.row * k + s.column] = ReadElement(warp, ea, ra, lane, i);
    }
    for (uint32_t i = 0; i < counts[2] * pb; ++i) {
      const Spot s = PlaceB(lane, i, pb);
      b[s.column * k + s.row] = ReadElement(warp, eb, rb, lane, i);
    }
    for (uint32_t i = 0; i < own; ++i) {
      const Spot s = PlaceC(lane, i);
      c[s.row][s.column] = ReadElement(warp, ec, rc, lane, i);
    }
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < own; ++i) {
      const Spot s = PlaceC(lane, i);
      const double sum =
          Dot(ea, &a[s.row * k], &b[s.column * k], k, (in.flags & 2) != 0, c[s.row][s.column]);
      PutElement(warp, ed, rd, lane, i, sum, (in.flags & 1) != 0);
    }
  }
}

/// Reads the shape from the modifier, such as "m16n8k16"; false for shapes other than m8n8 and
/// m16n8.
bool UseShape(Decoder& decoder, uint32_t* m, uint32_t* k) {
  for (const uint32_t rows : {8u, 16u}) {
    for (const uint32_t depth : {4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
      if (!decoder.Has("m" + std::to_string(rows) + "n8k" + std::to_string(depth))) continue;
      *m = rows;
      *k = depth;
      return true;
    }
  }
  return false;
}

bool DecodeMma(Decoder& decoder) {
  uint32_t m = 0, k = 0;
  if (decoder.OperandCount() != 4 || !UseShape(decoder, &m, &k)) return false;
  // A is row-major and B column-major in all shapes but m8n8k4 of f16, which is not supported.
  if (!decoder.Has("row") || !decoder.Has("col")) return false;
  std::vector<Element> types;
  for (const std::string& modifier : decoder.in().modifiers) {
    const Element element = ParseElement(modifier);
    if (element == Element::kNone) continue;
    decoder.Has(modifier);
    types.push_back(element);
  }
  if (types.size() != 4) return false;
  const Element ed = types[0], ea = types[1], eb = types[2], ec = types[3];
  if (m == 8 && !IsIntegral(ea) && ea != Element::kF64) return false;
  if (ea == Element::kB1 && !decoder.Has("popc")) return false;
  std::vector<uint32_t> refs, counts;
  const Type row = ea == Element::kF64 ? Type::kF64 : Type::kB32;
  for (size_t n = 0; n < 4; ++n) {
    const auto& children = decoder.Operand(n).children;
    counts.push_back(static_cast<uint32_t>(children.size()));
    for (const auto& child : children) {
      refs.push_back(n == 0 ? decoder.Destination(child, row) : decoder.Source(child, row));
    }
  }
  if (counts[1] * PerWord(ea) != m * k / kLanes || counts[2] * PerWord(eb) != 8 * k / kLanes ||
      counts[3] * PerWord(ec) != m / 4 || counts[0] * PerWord(ed) != m / 4) {
    return false;
  }
  std::vector<uint32_t> list = {static_cast<uint32_t>(ea),
                                static_cast<uint32_t>(eb),
                                static_cast<uint32_t>(ec),
                                static_cast<uint32_t>(ed),
                                m,
                                k};
  list.insert(list.end(), counts.begin(), counts.end());
  list.insert(list.end(), refs.begin(), refs.end());
  decoder.out.flags =
      static_cast<uint8_t>((decoder.Has("satfinite") ? 1 : 0) | (decoder.Has("and") ? 2 : 0));
  if (ea == Element::kB1) decoder.Has("xor");
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = Mma;
  return true;
}

/// movmatrix: transposes the 8 x 8 matrix of 16-bit elements that the lanes hold [9.7.14.5.17].
void MoveMatrix(Warp& warp, const Insn& in, uint32_t active) {
  uint16_t matrix[8][8];
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    matrix[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(a[lane]);
    matrix[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(a[lane] >> 16);
  }
  uint32_t* d = warp.Row<uint32_t>(in.d);
  ForLanes(active, [&](uint32_t lane) {
    d[lane] = matrix[lane % 4 * 2][lane / 4] | uint32_t{matrix[lane % 4 * 2 + 1][lane / 4]} << 16;
  });
}

bool DecodeMovmatrix(Decoder& decoder) {
  return decoder.Has("m8n8") && decoder.Has("trans") && decoder.TypeAt(0) == Type::kB16 &&
         decoder.OperandCount() == 2 && Simple(decoder, Type::kB32, MoveMatrix);
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
      if (warp.observer == nullptr) continue;
      const Access access = AccessTo(in, reinterpret_cast<uint8_t*>(rows[r]), 16);
      kStore ? warp.observer->Write(warp, lane, access, nullptr)
             : warp.observer->Read(warp, lane, access, nullptr);
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
  decoder.Has("x1");
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

}  // namespace

void AddMatrixOps(OpTable& table) {
  table["mma"] = DecodeMma;
  table["ldmatrix"] = DecodeLdmatrix;
  table["stmatrix"] = DecodeStmatrix;
  table["movmatrix"] = DecodeMovmatrix;
}

}  // namespace cupola::sim
