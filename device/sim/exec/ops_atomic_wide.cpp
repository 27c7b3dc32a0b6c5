// atom and red of vectors (each element is atomic by itself) and of 128 bits [PTX ISA 9.7.13.7-8].
// Compiled with -mcx16, so that a 128-bit exchange is one instruction of the host.
#include <cstring>

#include "device/sim/exec/float_atomics.h"
#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

using Wide = unsigned __int128;

/// small: 1 cas, 0 exch; list: Space.
void Atomic128(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const auto read = [&warp](Ref ref, uint32_t lane) {
    Wide value;
    std::memcpy(&value, warp.Row<uint8_t>(ref) + size_t{lane} * 16, 16);
    return value;
  };
  ForLanes(active, [&](uint32_t lane) {
    uint8_t* p = ResolveIn(static_cast<Space>(in.list), warp, address(lane), 16, lane);
    if (p == nullptr) return;
    Wide* word = reinterpret_cast<Wide*>(p);
    const Wide b = read(in.b, lane), c = in.c == kNoRef ? 0 : read(in.c, lane);
    Wide old = 0;
    if (in.small == 1) {
      old = __sync_val_compare_and_swap(word, b, c);
    } else {
      for (Wide seen = __sync_val_compare_and_swap(word, old, b); seen != old;
           seen = __sync_val_compare_and_swap(word, old, b)) {
        old = seen;
      }
    }
    if (warp.observer != nullptr) {
      const Wide after = in.small == 1 ? c : b;
      const bool wrote = in.small != 1 || old == b;
      warp.observer->Update(warp, lane, AccessTo(in, p, 16), &old, wrote ? &after : nullptr);
    }
    if (in.d != kNoRef) std::memcpy(warp.Row<uint8_t>(in.d) + size_t{lane} * 16, &old, 16);
  });
  warp.rested = true;
  warp.CountProgress();
}

/// list: Space, Type, FloatOp, elements, whether there are destinations; sources; destinations.
template <typename T>
void AtomicVector(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const uint32_t* list = &warp.block->program->lists[in.list];
  const Type type = static_cast<Type>(list[1]);
  const FloatOp op = static_cast<FloatOp>(list[2]);
  const uint32_t count = list[3];
  const uint32_t* sources = list + 5;
  const uint32_t* destinations = list[4] != 0 ? sources + count : nullptr;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t total = count * static_cast<uint32_t>(sizeof(T));
    uint8_t* p = ResolveIn(static_cast<Space>(list[0]), warp, address(lane), total, lane);
    if (p == nullptr) return;
    for (uint32_t i = 0; i < count; ++i) {
      T* word = reinterpret_cast<T*>(p) + i;
      const T b = static_cast<T>(warp.Row<uint32_t>(sources[i])[lane]);
      T old = __atomic_load_n(word, __ATOMIC_SEQ_CST), fresh;
      do {
        fresh = ApplyFloat<T>(op, type, old, b, true);
      } while (!__atomic_compare_exchange_n(word, &old, fresh, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST));
      if (warp.observer != nullptr) {
        warp.observer->Update(warp, lane, AccessTo(in, reinterpret_cast<uint8_t*>(word), sizeof(T)),
                              &old, &fresh);
      }
      if (destinations != nullptr) warp.Row<uint32_t>(destinations[i])[lane] = old;
    }
  });
  warp.rested = true;
  warp.CountProgress();
}

/// Operands: [d,] address, b [, c] [, cache policy].
bool DecodeWide(Decoder& decoder) {
  const bool returns = decoder.in().opcode == "atom";
  const size_t first = returns ? 1 : 0;
  const bool cas = decoder.Has("cas"), exch = decoder.Has("exch");
  if (!cas && !exch) return false;
  Insn& out = decoder.out;
  decoder.UseAddress(decoder.Operand(first));
  out.list = static_cast<uint32_t>(SpaceOf(decoder.in()));
  out.b = decoder.Source(first + 1, Type::kB128);
  if (cas) out.c = decoder.Source(first + 2, Type::kB128);
  if (returns) out.d = decoder.Destination(0, Type::kB128);
  out.small = cas ? 1 : 0;
  out.run = Atomic128;
  return true;
}

bool DecodeVector(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  const bool returns = decoder.in().opcode == "atom";
  const size_t first = returns ? 1 : 0;
  const FloatOp op = decoder.Has("add")   ? FloatOp::kAdd
                     : decoder.Has("min") ? FloatOp::kMin
                     : decoder.Has("max") ? FloatOp::kMax
                                          : FloatOp::kNone;
  const bool pairs_or_halves = IsFloat(type) && type != Type::kF32 && type != Type::kF64;
  if (op == FloatOp::kNone || !(pairs_or_halves || (type == Type::kF32 && op == FloatOp::kAdd)))
    return false;
  const auto& from = decoder.Operand(first + 1).children;
  const uint32_t bytes = TypeBytes(type) * static_cast<uint32_t>(from.size());
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  const bool keeps = returns && decoder.Operand(0).children.size() == from.size();
  Insn& out = decoder.out;
  decoder.UseAddress(decoder.Operand(first));
  std::vector<uint32_t> list = {static_cast<uint32_t>(SpaceOf(decoder.in())),
                                static_cast<uint32_t>(type), static_cast<uint32_t>(op),
                                static_cast<uint32_t>(from.size()), keeps};
  for (const ptx::Operand& operand : from) list.push_back(decoder.Source(operand, type));
  for (size_t i = 0; keeps && i < from.size(); ++i) {
    list.push_back(decoder.Destination(decoder.Operand(0).children[i], type));
  }
  out.list = decoder.AddList(list);
  out.run = TypeBytes(type) == 2 ? AtomicVector<uint16_t> : AtomicVector<uint32_t>;
  return true;
}

}  // namespace

void AddWideAtomicOps(OpTable& table) {
  table["atom vector"] = DecodeVector;
  table["atom b128"] = DecodeWide;
}

}  // namespace cupola::sim
