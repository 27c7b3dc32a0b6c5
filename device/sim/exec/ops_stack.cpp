// alloca, stacksave and stackrestore [PTX ISA 9.7.18]. A thread allocates from a stack of its own,
// which lies behind the frames of its functions in the same local window. A return frees what its
// function allocated.
#include <fmt/format.h>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint64_t kMaxAllocaBytes = 512u << 10;  // per lane

template <typename Cell>
void Alloca(Warp& warp, const Insn& in, uint32_t active) {
  Cell* d = warp.Row<Cell>(in.d);
  const Cell* size = warp.Row<Cell>(in.a);
  const uint64_t align = static_cast<uint64_t>(in.imm);
  ForLanes(active, [&](uint32_t lane) {
    const uint64_t start = (uint64_t{warp.alloca_top[lane]} + align - 1) & ~(align - 1);
    if (size[lane] > kMaxAllocaBytes || start + size[lane] > kMaxAllocaBytes) {
      warp.Raise(FaultKind::kIllegalAddress, lane,
                 fmt::format("alloca of {} bytes, the stack of a thread is full",
                             static_cast<uint64_t>(size[lane])));
      return;
    }
    const uint64_t end = start + size[lane];
    if (warp.alloca_memory[lane].size() < end + 16) warp.alloca_memory[lane].resize(end + 16);
    warp.alloca_top[lane] = static_cast<uint32_t>(end);
    d[lane] = static_cast<Cell>(Warp::kAllocaBase + start);
  });
}

template <typename Cell>
void StackSave(Warp& warp, const Insn& in, uint32_t active) {
  Cell* d = warp.Row<Cell>(in.d);
  ForLanes(active, [&](uint32_t lane) { d[lane] = Warp::kAllocaBase + warp.alloca_top[lane]; });
}

template <typename Cell>
void StackRestore(Warp& warp, const Insn& in, uint32_t active) {
  const Cell* a = warp.Row<Cell>(in.a);
  ForLanes(active, [&](uint32_t lane) {
    const uint64_t top = a[lane] - uint64_t{Warp::kAllocaBase};
    if (top <= warp.alloca_top[lane]) warp.alloca_top[lane] = static_cast<uint32_t>(top);
  });
}

/// alloca.u64 d, bytes{, align}: the alignment is a literal power of two, 8 unless given.
bool DecodeAlloca(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  const size_t count = decoder.OperandCount();
  if (count < 2 || CellBytes(type) < 4) return false;
  Insn& out = decoder.out;
  out.imm = count > 2 ? decoder.Operand(2).integer : 8;
  if (out.imm <= 0 || (out.imm & (out.imm - 1)) != 0) return false;
  out.a = decoder.Source(1, type);
  out.d = decoder.Destination(0, type);
  out.run = CellBytes(type) == 8 ? Alloca<uint64_t> : Alloca<uint32_t>;
  return true;
}

bool DecodeStackSave(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 1) return false;
  decoder.out.d = decoder.Destination(0, type);
  decoder.out.run = CellBytes(type) == 8 ? StackSave<uint64_t> : StackSave<uint32_t>;
  return true;
}

bool DecodeStackRestore(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 1) return false;
  decoder.out.a = decoder.Source(0, type);
  decoder.out.run = CellBytes(type) == 8 ? StackRestore<uint64_t> : StackRestore<uint32_t>;
  return true;
}

}  // namespace

void AddStackOps(OpTable& table) {
  table["alloca"] = DecodeAlloca;
  table["stacksave"] = DecodeStackSave;
  table["stackrestore"] = DecodeStackRestore;
}

}  // namespace cupola::sim
