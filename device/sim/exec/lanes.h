// Helpers with which handlers read and write lanes. Map1, Map2 and Map3 make a Handler over rows of
// a function of values; AddressReader and Resolve find what a memory access means. Only the
// instruction families (ops_*.cpp) use this header. A Handler runs on the thread of the warp's SM, for
// the lanes whose bits are set in `active`.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "device/sim/exec/families.h"
#include "device/sim/exec/state.h"

namespace cupola::sim {

/// The type of a cell that holds a T. A value shorter than 32 bits is in the low bits of 32.
template <typename T>
using CellOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
inline T ReadCell(const CellOf<T>* row, uint32_t lane) {
  if constexpr (sizeof(T) >= 4) {
    return std::bit_cast<T>(row[lane]);
  } else {
    return static_cast<T>(row[lane]);
  }
}

template <typename T>
inline void WriteCell(CellOf<T>* row, uint32_t lane, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    row[lane] = std::bit_cast<CellOf<T>>(value);
  } else {
    row[lane] = static_cast<CellOf<T>>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

/// As ForLanes, for a body that reads cells of the lane in some rows and writes one in another row. Two rows are the
/// same or have no byte in common, so that the compiler may handle several lanes at once.
template <typename Body>
inline void ForCells(uint32_t lanes, Body body) {
  if (lanes != kFullMask) return ForLanes(lanes, body);
#pragma GCC ivdep
  for (uint32_t lane = 0; lane < kLanes; ++lane) body(lane);
}

/// A Handler for d = Op(a): R is the type of the result, A that of the operand. Map2 and Map3 have more operands.
template <typename R, typename A, typename Op>
void Map1(Warp& warp, const Insn& in, uint32_t active) {
  auto* d = warp.Row<CellOf<R>>(in.d);
  const auto* a = warp.Row<CellOf<A>>(in.a);
  ForCells(active, [=](uint32_t lane) { WriteCell<R>(d, lane, Op{}(ReadCell<A>(a, lane))); });
}

template <typename R, typename A, typename B, typename Op>
void Map2(Warp& warp, const Insn& in, uint32_t active) {
  auto* d = warp.Row<CellOf<R>>(in.d);
  const auto* a = warp.Row<CellOf<A>>(in.a);
  const auto* b = warp.Row<CellOf<B>>(in.b);
  ForCells(active, [=](uint32_t lane) {
    WriteCell<R>(d, lane, Op{}(ReadCell<A>(a, lane), ReadCell<B>(b, lane)));
  });
}

template <typename R, typename A, typename B, typename C, typename Op>
void Map3(Warp& warp, const Insn& in, uint32_t active) {
  auto* d = warp.Row<CellOf<R>>(in.d);
  const auto* a = warp.Row<CellOf<A>>(in.a);
  const auto* b = warp.Row<CellOf<B>>(in.b);
  const auto* c = warp.Row<CellOf<C>>(in.c);
  ForCells(active, [=](uint32_t lane) {
    WriteCell<R>(d, lane, Op{}(ReadCell<A>(a, lane), ReadCell<B>(b, lane), ReadCell<C>(c, lane)));
  });
}

/// Calls pick.operator()<T>() with the C++ type of an integer Type; nullptr for other types.
template <typename Pick>
Handler PickInteger(Type type, Pick pick) {
  switch (type) {
    case Type::kU16:
      return pick.template operator()<uint16_t>();
    case Type::kU32:
      return pick.template operator()<uint32_t>();
    case Type::kU64:
      return pick.template operator()<uint64_t>();
    case Type::kS16:
      return pick.template operator()<int16_t>();
    case Type::kS32:
      return pick.template operator()<int32_t>();
    case Type::kS64:
      return pick.template operator()<int64_t>();
    default:
      return nullptr;
  }
}

/// As PickInteger, for any Type of 16, 32 or 64 bits; T is the unsigned integer of that size.
template <typename Pick>
Handler PickBits(Type type, Pick pick) {
  switch (TypeBytes(type)) {
    case 2:
      return pick.template operator()<uint16_t>();
    case 4:
      return pick.template operator()<uint32_t>();
    case 8:
      return pick.template operator()<uint64_t>();
    default:
      return nullptr;
  }
}

/// Sets the handler, and d, a, b and c from operands 0 to 3, all of `type`; b and c may be missing.
inline bool Simple(Decoder& decoder, Type type, Handler handler) {
  const size_t count = decoder.OperandCount();
  if (handler == nullptr || count < 2 || count > 4) return false;
  decoder.out.run = handler;
  decoder.out.a = decoder.Source(1, type);
  if (count > 2) decoder.out.b = decoder.Source(2, type);
  if (count > 3) decoder.out.c = decoder.Source(3, type);
  decoder.out.d = decoder.Destination(0, type);
  return true;
}

/// Reads each lane's address of an instruction that was decoded with Decoder::UseAddress.
class AddressReader {
 public:
  AddressReader(Warp& warp, const Insn& in)
      : row_(warp.Row<uint8_t>(in.a)),
        narrow_((in.flags & kAddress32) != 0),
        offset_(static_cast<uint64_t>(in.imm)) {
    if ((in.flags & kAddLocalFrame) != 0) offset_ += warp.group_local;
    if ((in.flags & kAddDynamicShared) != 0) {
      offset_ += kSharedBase + warp.block->dynamic_shared_at;
    }
  }
  uint64_t operator()(uint32_t lane) const {
    if (narrow_) {
      // An address of 32 bits wraps at 32 bits.
      return static_cast<uint32_t>(reinterpret_cast<const uint32_t*>(row_)[lane] +
                                   static_cast<uint32_t>(offset_));
    }
    return reinterpret_cast<const uint64_t*>(row_)[lane] + offset_;
  }

 private:
  const uint8_t* row_;
  bool narrow_;
  uint64_t offset_;
};

/// The state space of an access.
enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam };

/// The bit that marks an address in the space .param as that of a .func parameter.
constexpr uint64_t kFunctionParamTag = 1ull << 32;

template <Space S>
inline uint8_t* Resolve(Warp& warp, uint64_t address, uint32_t size, uint32_t lane) {
  if constexpr (S == Space::kGlobal) return warp.Global(address, size, lane);
  if constexpr (S == Space::kShared) return warp.Shared(address, size, lane);
  if constexpr (S == Space::kLocal) return warp.Local(address, size, lane);
  if constexpr (S == Space::kGeneric) return warp.Generic(address, size, lane);
  if ((address & kFunctionParamTag) != 0) {
    return warp.Local(address & ~kFunctionParamTag, size, lane);
  }
  return warp.KernelParam(address, size, lane);
}

inline uint8_t* ResolveIn(Space space, Warp& warp, uint64_t address, uint32_t size, uint32_t lane) {
  switch (space) {
    case Space::kGlobal:
      return Resolve<Space::kGlobal>(warp, address, size, lane);
    case Space::kShared:
      return Resolve<Space::kShared>(warp, address, size, lane);
    case Space::kLocal:
      return Resolve<Space::kLocal>(warp, address, size, lane);
    case Space::kParam:
      return Resolve<Space::kParam>(warp, address, size, lane);
    case Space::kGeneric:
      break;
  }
  return Resolve<Space::kGeneric>(warp, address, size, lane);
}

/// `seen` with one more value that was read, for Warp::CountLook.
inline uint64_t Mixed(uint64_t seen, uint64_t value) { return (seen ^ value) * 0x9e3779b97f4a7c15u; }

inline Access AccessTo(const Insn& in, const uint8_t* at, uint32_t bytes) {
  return {const_cast<uint8_t*>(at), bytes, in.order, in.scope, false, false};
}

/// The space that the modifiers name; kGeneric if none.
Space SpaceOf(const ptx::Instruction& instruction);

}  // namespace cupola::sim
