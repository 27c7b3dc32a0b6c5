// wmma [PTX ISA 9.7.14.4]. The ISA leaves open how a fragment lies in the registers of a warp. Here
// lane l holds the elements l * n, l * n + 1 ... of the matrix, counted row by row, whatever its
// layout in memory is. Products are summed as in ops_matrix.cpp.
#include <cmath>
#include <cstring>

#include "device/sim/exec/lanes.h"
#include "device/sim/exec/matrix.h"

namespace cupola::sim {
namespace {

struct WmmaShape {
  uint32_t m = 0, n = 0, k = 0;
};

WmmaShape WmmaShapeOf(const Decoder& decoder) {
  if (decoder.Has("m16n16k16")) return {16, 16, 16};
  if (decoder.Has("m32n8k16")) return {32, 8, 16};
  if (decoder.Has("m8n32k16")) return {8, 32, 16};
  if (decoder.Has("m16n16k8")) return {16, 16, 8};
  if (decoder.Has("m8n8k4")) return {8, 8, 4};
  return {};
}

/// The element types that the modifiers name, in their order.
std::vector<Element> ElementsOf(const Decoder& decoder) {
  std::vector<Element> elements;
  for (const std::string& modifier : decoder.in().modifiers) {
    const Element element = ParseElement(modifier);
    if (element == Element::kNone) continue;
    decoder.Has(modifier);
    elements.push_back(element);
  }
  return elements;
}

/// Whether the shape exists for the element type. f64 has a shape of its own, and so has tf32; the
/// other types share three shapes. Types smaller than a byte are not supported.
bool Fits(const WmmaShape& shape, Element e, bool accumulator) {
  if (shape.k == 4) return e == Element::kF64;
  if (shape.k == 8) return e == (accumulator ? Element::kF32 : Element::kTf32);
  if (accumulator) return e == Element::kF16 || e == Element::kF32 || e == Element::kS32;
  return e == Element::kF16 || e == Element::kBf16 || e == Element::kS8 || e == Element::kU8;
}

Type RowType(Element e) { return e == Element::kF64 ? Type::kF64 : Type::kB32; }

/// wmma.load and wmma.store. list: rows, columns, Element, Space, whether column-major, Refs...; b:
/// stride in elements.
template <bool kStore>
void Move(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const uint32_t* list = &warp.block->program->lists[in.list];
  const uint32_t rows = list[0], columns = list[1], *refs = list + 5;
  const Element e = static_cast<Element>(list[2]);
  const uint32_t bits = ElementBits(e), bytes = bits / 8, per_word = PerWord(e);
  const bool by_columns = list[4] != 0;
  const uint32_t own = rows * columns / kLanes;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t stride =
        in.b == kNoRef ? (by_columns ? rows : columns) : warp.Row<uint32_t>(in.b)[lane];
    for (uint32_t i = 0; i < own; ++i) {
      const uint32_t row = (lane * own + i) / columns, column = (lane * own + i) % columns;
      const uint64_t index =
          by_columns ? uint64_t{column} * stride + row : uint64_t{row} * stride + column;
      uint8_t* p =
          ResolveIn(static_cast<Space>(list[3]), warp, address(lane) + bytes * index, bytes, lane);
      if (p == nullptr) return;
      if (warp.observer != nullptr) {
        const Access access = AccessTo(in, p, bytes);
        kStore ? warp.observer->Write(warp, lane, access, nullptr)
               : warp.observer->Read(warp, lane, access, nullptr);
      }
      if (e == Element::kF64) {
        uint64_t* cell = &warp.Row<uint64_t>(refs[i])[lane];
        kStore ? std::memcpy(p, cell, 8) : std::memcpy(cell, p, 8);
        continue;
      }
      uint32_t* word = &warp.Row<uint32_t>(refs[i / per_word])[lane];
      const uint32_t shift = i % per_word * bits;
      if (kStore) {
        const uint32_t value = *word >> shift;
        std::memcpy(p, &value, bytes);
      } else {
        uint32_t value = 0;
        std::memcpy(&value, p, bytes);
        *word = shift == 0 ? value : *word | value << shift;
      }
    }
  });
}

bool DecodeMove(Decoder& decoder, bool store) {
  const WmmaShape shape = WmmaShapeOf(decoder);
  const std::vector<Element> elements = ElementsOf(decoder);
  const bool is_a = decoder.Has("a"), is_b = decoder.Has("b");
  const bool accumulator = decoder.Has("c") || decoder.Has("d");
  const bool by_columns = decoder.Has("col");
  if (shape.m == 0 || elements.size() != 1 || by_columns == decoder.Has("row")) return false;
  const Element e = elements[0];
  if (!Fits(shape, e, accumulator) || is_a + is_b + accumulator != 1) return false;
  const uint32_t rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
  const auto& registers = decoder.Operand(store ? 1 : 0).children;
  if (registers.size() * PerWord(e) < rows * columns / kLanes) return false;
  std::vector<uint32_t> list = {rows, columns, static_cast<uint32_t>(e),
                                static_cast<uint32_t>(SpaceOf(decoder.in())), by_columns};
  for (const auto& r : registers)
    list.push_back(store ? decoder.Source(r, RowType(e)) : decoder.Destination(r, RowType(e)));
  decoder.UseAddress(decoder.Operand(store ? 0 : 1));
  if (decoder.OperandCount() > 2) decoder.out.b = decoder.Source(2, Type::kU32);
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = store ? Move<true> : Move<false>;
  return true;
}

/// wmma.mma. list: m, n, k; Element of d, a, b, c; numbers of registers of d, a, b, c; Refs. flags:
/// 1 saturate.
void Multiply(Warp& warp, const Insn& in, uint32_t active) {
  if (active != kFullMask) {
    warp.Raise(FaultKind::kIllegalInstruction, static_cast<uint32_t>(std::countr_zero(active)),
               "a matrix instruction needs all lanes of the warp");
    return;
  }
  const uint32_t* list = &warp.block->program->lists[in.list];
  const uint32_t m = list[0], n = list[1], k = list[2];
  const Element ed = static_cast<Element>(list[3]), ea = static_cast<Element>(list[4]),
                eb = static_cast<Element>(list[5]), ec = static_cast<Element>(list[6]);
  const uint32_t *counts = list + 7, *rd = list + 11, *ra = rd + counts[0], *rb = ra + counts[1],
                 *rc = rb + counts[2];
  const auto read = [&warp](Element e, const uint32_t* refs, uint32_t own, uint32_t index) {
    return ReadElement(warp, e, refs, index / own, index % own);
  };
  std::vector<double> d(size_t{m} * n);
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      double sum = read(ec, rc, m * n / kLanes, row * n + column);
      for (uint32_t j = 0; j < k; ++j) {
        const double x = read(ea, ra, m * k / kLanes, row * k + j);
        const double y = read(eb, rb, k * n / kLanes, j * n + column);
        sum = ea == Element::kF64 ? std::fma(x, y, sum) : sum + x * y;
      }
      d[size_t{row} * n + column] = sum;
    }
  }
  const uint32_t own = m * n / kLanes;
  for (uint32_t index = 0; index < m * n; ++index) {
    PutElement(warp, ed, rd, index / own, index % own, d[index], in.flags != 0);
  }
}

/// Decodes wmma.mma.sync.aligned.row.col.shape, which ends in .d.c for f16 and in .d.a.b.c for
/// other inputs.
bool DecodeMultiply(Decoder& decoder) {
  const WmmaShape shape = WmmaShapeOf(decoder);
  std::vector<Element> e = ElementsOf(decoder);
  if (shape.m == 0 || decoder.OperandCount() != 4) return false;
  if (e.size() == 2) e = {e[0], Element::kF16, Element::kF16, e[1]};
  if (e.size() != 4 || !Fits(shape, e[0], true) || !Fits(shape, e[1], false) ||
      !Fits(shape, e[2], false) || !Fits(shape, e[3], true)) {
    return false;
  }
  decoder.Has("row");
  decoder.Has("col");
  std::vector<uint32_t> list = {shape.m, shape.n, shape.k};
  for (const Element element : e) list.push_back(static_cast<uint32_t>(element));
  std::vector<uint32_t> refs;
  for (size_t i = 0; i < 4; ++i) {
    const auto& children = decoder.Operand(i).children;
    list.push_back(static_cast<uint32_t>(children.size()));
    for (const auto& r : children) {
      refs.push_back(i == 0 ? decoder.Destination(r, RowType(e[0]))
                            : decoder.Source(r, RowType(e[i])));
    }
  }
  list.insert(list.end(), refs.begin(), refs.end());
  decoder.out.flags = decoder.Has("satfinite");
  if (decoder.out.flags != 0 && !IsIntegral(e[0])) return false;
  decoder.out.list = decoder.AddList(list);
  decoder.out.run = Multiply;
  return true;
}

bool DecodeWmma(Decoder& decoder) {
  if (decoder.Has("load")) return DecodeMove(decoder, false);
  if (decoder.Has("store")) return DecodeMove(decoder, true);
  return decoder.Has("mma") && DecodeMultiply(decoder);
}

}  // namespace

void AddWmmaOps(OpTable& table) { table["wmma"] = DecodeWmma; }

}  // namespace cupola::sim
