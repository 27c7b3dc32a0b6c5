// atom, red, membar, fence [PTX ISA 9.7.13.5-8]. An atomic is one of the host, sequentially
// consistent, so that it is atomic also against other SM threads and the program's threads.
#include <atomic>

#include "device/sim/exec/float_atomics.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

enum class AtomOp : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec, kNone };

template <typename T>
T Apply(AtomOp op, Type type, T old, T b, T c, bool flush) {
  using S = std::make_signed_t<T>;
  const bool is_float = IsFloat(type);
  switch (op) {
    case AtomOp::kAdd:
      return is_float ? ApplyFloat<T>(FloatOp::kAdd, type, old, b, flush) : static_cast<T>(old + b);
    case AtomOp::kMin:
      if (is_float) return ApplyFloat<T>(FloatOp::kMin, type, old, b, flush);
      if (IsSigned(type)) return static_cast<S>(b) < static_cast<S>(old) ? b : old;
      return b < old ? b : old;
    case AtomOp::kMax:
      if (is_float) return ApplyFloat<T>(FloatOp::kMax, type, old, b, flush);
      if (IsSigned(type)) return static_cast<S>(b) > static_cast<S>(old) ? b : old;
      return b > old ? b : old;
    case AtomOp::kAnd:
      return old & b;
    case AtomOp::kOr:
      return old | b;
    case AtomOp::kXor:
      return old ^ b;
    case AtomOp::kExch:
      return b;
    case AtomOp::kCas:
      return old == b ? c : old;
    case AtomOp::kInc:
      return old >= b ? 0 : static_cast<T>(old + 1);
    case AtomOp::kDec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case AtomOp::kNone:
      break;
  }
  return old;
}

/// atom and red. small: Type | AtomOp << 8; list: Space; d is missing for red.
template <typename T>
void Atomic(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const Type type = static_cast<Type>(in.small & 0xFF);
  const AtomOp op = static_cast<AtomOp>(in.small >> 8);
  const Space space = static_cast<Space>(in.list);
  using Cell = CellOf<T>;
  const Cell* b = warp.Row<Cell>(in.b);
  const Cell* c = in.c == kNoRef ? b : warp.Row<Cell>(in.c);
  Cell* d = in.d == kNoRef ? nullptr : warp.Row<Cell>(in.d);
  const uint64_t shared = reinterpret_cast<uint64_t>(warp.block->shared);
  bool changed = false;
  uint64_t seen = 0;
  ForLanes(active, [&](uint32_t lane) {
    uint8_t* p = ResolveIn(space, warp, address(lane), sizeof(T), lane);
    if (p == nullptr) return;
    T* word = reinterpret_cast<T*>(p);
    // atom.add.f32 flushes subnormals in global memory and keeps them in shared memory.
    const bool flush = reinterpret_cast<uint64_t>(p) - shared >= warp.block->shared_bytes;
    T old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    T fresh;
    do {
      fresh = Apply<T>(op, type, old, static_cast<T>(b[lane]), static_cast<T>(c[lane]), flush);
    } while (
        !__atomic_compare_exchange_n(word, &old, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (warp.observer != nullptr) {
      const bool wrote = op != AtomOp::kCas || old == static_cast<T>(b[lane]);
      warp.observer->Update(warp, lane, AccessTo(in, p, sizeof(T)), &old, wrote ? &fresh : nullptr);
    }
    if (d != nullptr) d[lane] = old;
    changed |= old != fresh;
    seen = Mixed(seen, old);
  });
  warp.rested = true;
  if (changed) {
    warp.CountProgress();
  } else {
    warp.CountLook(seen);
  }
}

AtomOp OpOf(const Decoder& decoder) {
  static constexpr std::pair<const char*, AtomOp> kOps[] = {
      {"add", AtomOp::kAdd}, {"min", AtomOp::kMin}, {"max", AtomOp::kMax},   {"and", AtomOp::kAnd},
      {"or", AtomOp::kOr},   {"xor", AtomOp::kXor}, {"exch", AtomOp::kExch}, {"cas", AtomOp::kCas},
      {"inc", AtomOp::kInc}, {"dec", AtomOp::kDec}};
  for (const auto& [name, op] : kOps) {
    if (decoder.Has(name)) return op;
  }
  return AtomOp::kNone;
}

bool DecodeAtomic(Decoder& decoder, bool returns) {
  const Type type = decoder.TypeAt(0);
  const AtomOp op = OpOf(decoder);
  const size_t first = returns ? 1 : 0;
  const size_t sources = op == AtomOp::kCas ? 2 : 1;
  if (op == AtomOp::kNone || decoder.OperandCount() < first + 1 + sources) return false;
  if (decoder.Operand(first + 1).kind == ptx::Operand::Kind::kVector)
    return Opcodes().at("atom vector")(decoder);
  if (type == Type::kB128) return Opcodes().at("atom b128")(decoder);
  const bool f32_or_f64 = type == Type::kF32 || type == Type::kF64;
  if (f32_or_f64 && op != AtomOp::kAdd && op != AtomOp::kExch && op != AtomOp::kCas) return false;
  Insn& out = decoder.out;
  switch (TypeBytes(type)) {
    case 2:
      out.run = Atomic<uint16_t>;
      break;
    case 4:
      out.run = Atomic<uint32_t>;
      break;
    case 8:
      out.run = Atomic<uint64_t>;
      break;
    default:
      return false;
  }
  const Address address = decoder.UseAddress(decoder.Operand(first));
  Space space = SpaceOf(decoder.in());
  if (address.names == Symbol::Kind::kShared || address.names == Symbol::Kind::kDynamicShared) {
    space = Space::kShared;
  }
  out.list = static_cast<uint32_t>(space);
  out.small = static_cast<uint16_t>(static_cast<uint16_t>(type) | static_cast<uint16_t>(op) << 8);
  out.b = decoder.Source(first + 1, type);
  if (op == AtomOp::kCas) out.c = decoder.Source(first + 2, type);
  if (returns) out.d = decoder.Destination(0, type);
  return true;
}

bool DecodeAtom(Decoder& decoder) { return DecodeAtomic(decoder, true); }
bool DecodeRed(Decoder& decoder) { return !decoder.Has("async") && DecodeAtomic(decoder, false); }

void Fence(Warp& warp, const Insn& in, uint32_t active) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (warp.observer != nullptr && in.order != Order::kWeak)
    warp.observer->Fence(warp, active, in.order, in.scope);
}

bool DecodeFence(Decoder& decoder) {
  decoder.out.run = Fence;
  return true;
}

}  // namespace

void AddAtomicOps(OpTable& table) {
  table["atom"] = DecodeAtom;
  table["red"] = DecodeRed;
  table["membar"] = DecodeFence;
  table["fence"] = DecodeFence;
}

}  // namespace cupola::sim
