// ld, st and their relatives [PTX ISA 9.7.9.8 - 9.7.9.15]. An access is a plain host access of the
// full width, so nobody sees half of a 4-byte store. Ordering qualifiers become host fences.
#include <emmintrin.h>

#include <atomic>
#include <cstring>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

using Kind = ptx::Operand::Kind;

constexpr uint16_t kAcquire = 1, kRelease = 2, kStrong = 4, kReadOnly = 8;

/// Where a read through the cache that is not coherent finds its bytes. Stepped mode has no such
/// cache; it reports every read for which the cache could have made a difference.
const uint8_t* ThroughCache(Warp& warp, const uint8_t* at, uint32_t bytes) {
  if (warp.observer != nullptr) return at;
  auto& cache = warp.block->read_only;
  if (cache == nullptr) cache = std::make_unique<ReadOnlyCache>();
  const uint8_t* held = cache->Find(reinterpret_cast<uint64_t>(at), bytes, warp.view);
  return held == nullptr ? at : held;
}

Access ReadOnlyAccess(const Insn& in, const uint8_t* at, uint32_t bytes) {
  Access access = AccessTo(in, at, bytes);
  access.read_only = (in.small & kReadOnly) != 0;
  return access;
}

/// Loads a T into cells of type Cell, extended by T's signedness.
template <Space S, typename T, typename Cell>
void Load(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  Cell* d = warp.Row<Cell>(in.d);
  ForLanes(active, [&](uint32_t lane) {
    const uint8_t* p = Resolve<S>(warp, address(lane), sizeof(T), lane);
    if (p == nullptr) return;
    T value = *reinterpret_cast<const volatile T*>(p);
    if constexpr (S != Space::kLocal && S != Space::kParam) {
      if (warp.observer != nullptr)
        warp.observer->Read(warp, lane, AccessTo(in, p, sizeof(T)), &value);
    }
    d[lane] = static_cast<Cell>(
        static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  });
  if (in.small != 0) {
    if ((in.small & kAcquire) != 0) std::atomic_thread_fence(std::memory_order_acquire);
    warp.rested = true;
    uint64_t seen = address(std::countr_zero(active));
    ForLanes(active, [&](uint32_t lane) { seen = Mixed(seen, d[lane]); });
    warp.CountLook(seen);
  }
}

/// As Load, from global memory through the cache that is not coherent.
template <typename T, typename Cell>
void LoadReadOnly(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  Cell* d = warp.Row<Cell>(in.d);
  ForLanes(active, [&](uint32_t lane) {
    const uint8_t* p = Resolve<Space::kGlobal>(warp, address(lane), sizeof(T), lane);
    if (p == nullptr) return;
    T value;
    std::memcpy(&value, ThroughCache(warp, p, sizeof(T)), sizeof(T));
    if (warp.observer != nullptr)
      warp.observer->Read(warp, lane, ReadOnlyAccess(in, p, sizeof(T)), &value);
    d[lane] = static_cast<Cell>(
        static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  });
}

template <Space S, typename T, typename Cell>
void Store(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const Cell* b = warp.Row<Cell>(in.b);
  if ((in.small & kRelease) != 0) std::atomic_thread_fence(std::memory_order_release);
  ForLanes(active, [&](uint32_t lane) {
    uint8_t* p = Resolve<S>(warp, address(lane), sizeof(T), lane);
    if (p == nullptr) return;
    const T value = static_cast<T>(b[lane]);
    if constexpr (S != Space::kLocal && S != Space::kParam) {
      if (warp.observer != nullptr)
        warp.observer->Write(warp, lane, AccessTo(in, p, sizeof(T)), &value);
    }
    *reinterpret_cast<volatile T*>(p) = value;
  });
  warp.CountStore();
}

/// Copies one lane's vector by accesses of up to 16 bytes, so that nobody sees a part of a 16-byte
/// store.
void CopyWhole(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  for (; bytes >= 16; bytes -= 16, to += 16, from += 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  switch (bytes) {
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    default:
      break;
  }
}

struct VectorShape {
  Space space;
  uint32_t count;
  uint32_t bytes;  // size of an element
  bool is_signed;
  const uint32_t* refs;   // the Ref of each element
  const uint32_t* cells;  // the size of each element's cell, in bytes
};

VectorShape ShapeOf(Warp& warp, const Insn& in) {
  const uint32_t* list = &warp.block->program->lists[in.list];
  return {static_cast<Space>(list[0]), list[1], list[2], list[3] != 0, list + 4,
          list + 4 + list[1]};
}

// kBytes: of an element.
template <uint32_t kBytes>
void LoadElements(Warp& warp, const Insn& in, uint32_t active, const VectorShape& shape) {
  const AddressReader address(warp, in);
  const uint32_t total = kBytes * shape.count;
  const bool read_only = (in.small & kReadOnly) != 0;
  uint64_t seen = address(std::countr_zero(active));
  ForLanes(active, [&](uint32_t lane) {
    const uint8_t* p = ResolveIn(shape.space, warp, address(lane), total, lane);
    if (p == nullptr) return;
    alignas(16) uint8_t buffer[32];
    CopyWhole(buffer, read_only ? ThroughCache(warp, p, total) : p, total);
    if (warp.observer != nullptr)
      warp.observer->Read(warp, lane, ReadOnlyAccess(in, p, total), buffer);
    for (uint32_t i = 0; i < shape.count; ++i) {
      if (shape.cells[i] == 16) {
        std::memcpy(warp.Row<uint8_t>(shape.refs[i]) + lane * 16, buffer + i * 16, 16);
      } else if constexpr (kBytes <= 8) {
        uint64_t value = 0;
        std::memcpy(&value, buffer + i * kBytes, kBytes);
        seen = Mixed(seen, value);
        if (shape.is_signed) {
          constexpr uint32_t kShift = 64 - kBytes * 8;
          value = static_cast<uint64_t>(static_cast<int64_t>(value << kShift) >> kShift);
        }
        if (shape.cells[i] == 8) {
          warp.Row<uint64_t>(shape.refs[i])[lane] = value;
        } else {
          warp.Row<uint32_t>(shape.refs[i])[lane] = static_cast<uint32_t>(value);
        }
      }
    }
  });
  if ((in.small & ~kReadOnly) != 0) {
    if ((in.small & kAcquire) != 0) std::atomic_thread_fence(std::memory_order_acquire);
    warp.rested = true;
    warp.CountLook(seen);
  }
}

void LoadVector(Warp& warp, const Insn& in, uint32_t active) {
  const VectorShape shape = ShapeOf(warp, in);
  switch (shape.bytes) {
    case 16:
      return LoadElements<16>(warp, in, active, shape);
    case 8:
      return LoadElements<8>(warp, in, active, shape);
    case 4:
      return LoadElements<4>(warp, in, active, shape);
    case 2:
      return LoadElements<2>(warp, in, active, shape);
    default:
      return LoadElements<1>(warp, in, active, shape);
  }
}

void StoreVector(Warp& warp, const Insn& in, uint32_t active) {
  const VectorShape shape = ShapeOf(warp, in);
  const AddressReader address(warp, in);
  const uint32_t total = shape.bytes * shape.count;
  if ((in.small & kRelease) != 0) std::atomic_thread_fence(std::memory_order_release);
  ForLanes(active, [&](uint32_t lane) {
    uint8_t* p = ResolveIn(shape.space, warp, address(lane), total, lane);
    if (p == nullptr) return;
    alignas(16) uint8_t buffer[32];
    for (uint32_t i = 0; i < shape.count; ++i) {
      std::memcpy(buffer + i * shape.bytes,
                  warp.Row<uint8_t>(shape.refs[i]) + lane * shape.cells[i], shape.bytes);
    }
    if (warp.observer != nullptr) warp.observer->Write(warp, lane, AccessTo(in, p, total), buffer);
    CopyWhole(p, buffer, total);
  });
  warp.CountStore();
}

enum class Kinds : uint8_t { kLoad, kStore, kLoadReadOnly };

template <Space S, Kinds K>
Handler PickAccess(Type type, uint32_t cell) {
  constexpr bool kLoad = K != Kinds::kStore;
  const auto pick = [cell]<typename T>() -> Handler {
    if constexpr (K == Kinds::kLoadReadOnly) {
      return cell == 8 ? LoadReadOnly<T, uint64_t> : LoadReadOnly<T, uint32_t>;
    } else if constexpr (kLoad) {
      return cell == 8 ? Load<S, T, uint64_t> : Load<S, T, uint32_t>;
    } else {
      return cell == 8 ? Store<S, T, uint64_t> : Store<S, T, uint32_t>;
    }
  };
  const bool sign = kLoad && IsSigned(type);
  switch (TypeBytes(type)) {
    case 1:
      return sign ? pick.template operator()<int8_t>() : pick.template operator()<uint8_t>();
    case 2:
      return sign ? pick.template operator()<int16_t>() : pick.template operator()<uint16_t>();
    case 4:
      return sign ? pick.template operator()<int32_t>() : pick.template operator()<uint32_t>();
    case 8:
      return pick.template operator()<uint64_t>();
    default:
      return nullptr;
  }
}

template <Kinds K>
Handler PickSpace(Space space, Type type, uint32_t cell) {
  switch (space) {
    case Space::kGlobal:
      return PickAccess<Space::kGlobal, K>(type, cell);
    case Space::kShared:
      return PickAccess<Space::kShared, K>(type, cell);
    case Space::kLocal:
      return PickAccess<Space::kLocal, K>(type, cell);
    case Space::kParam:
      return PickAccess<Space::kParam, K>(type, cell);
    case Space::kGeneric:
      return PickAccess<Space::kGeneric, K>(type, cell);
  }
  return nullptr;
}

uint16_t OrderOf(const Decoder& decoder) {
  uint16_t order = 0;
  for (const char* word : {"volatile", "relaxed", "mmio"}) order |= decoder.Has(word) ? kStrong : 0;
  if (decoder.Has("nc")) order |= kReadOnly;
  if (decoder.Has("acquire")) order |= kAcquire | kStrong;
  if (decoder.Has("release")) order |= kRelease | kStrong;
  return order;
}

/// The space of an access. A direct access to a function's parameter goes to the local frame.
Space AccessSpace(Decoder& decoder, const Address& address) {
  Space space = SpaceOf(decoder.in());
  using SymbolKind = Symbol::Kind;
  if (address.names == SymbolKind::kFunctionParam) return Space::kLocal;
  if (space == Space::kGeneric) {
    if (address.names == SymbolKind::kLocal) return Space::kLocal;
    if (address.names == SymbolKind::kShared || address.names == SymbolKind::kDynamicShared) {
      return Space::kShared;
    }
  }
  return space;
}

bool DecodeAccess(Decoder& decoder, bool load, uint16_t order) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() < 2 || type == Type::kNone || type == Type::kPred) return false;
  const ptx::Operand& value = decoder.Operand(load ? 0 : 1);
  const Address address = decoder.UseAddress(decoder.Operand(load ? 1 : 0));
  const Space space = AccessSpace(decoder, address);
  Insn& out = decoder.out;
  // Only accesses to global memory go through the cache. The generic address of an ldu may name
  // any.
  out.small = space == Space::kGlobal ? order : order & ~kReadOnly;
  const bool read_only = (out.small & kReadOnly) != 0;
  if (value.kind != Kind::kVector && type != Type::kB128) {
    const uint32_t cell = CellBytes(decoder.RegisterType(value, type));
    if (load) {
      out.d = decoder.Destination(value, type);
    } else {
      out.b = decoder.Source(value, type);
    }
    out.run = read_only ? PickAccess<Space::kGlobal, Kinds::kLoadReadOnly>(type, cell)
              : load    ? PickSpace<Kinds::kLoad>(space, type, cell)
                        : PickSpace<Kinds::kStore>(space, type, cell);
    return out.run != nullptr;
  }
  std::vector<ptx::Operand> elements = value.children;
  if (value.kind != Kind::kVector) elements = {value};
  const uint32_t count = static_cast<uint32_t>(elements.size());
  if (count == 0 || count * TypeBytes(type) > 32) return false;
  std::vector<uint32_t> list = {static_cast<uint32_t>(space), count, TypeBytes(type),
                                IsSigned(type)};
  std::vector<uint32_t> cells;
  for (const ptx::Operand& element : elements) {
    list.push_back(load ? decoder.Destination(element, type) : decoder.Source(element, type));
    cells.push_back(CellBytes(decoder.RegisterType(element, type)));
  }
  list.insert(list.end(), cells.begin(), cells.end());
  out.list = decoder.AddList(list);
  out.run = load ? LoadVector : StoreVector;
  return true;
}

bool DecodeLoad(Decoder& decoder) { return DecodeAccess(decoder, true, OrderOf(decoder)); }
bool DecodeUniformLoad(Decoder& decoder) { return DecodeAccess(decoder, true, kReadOnly); }
bool DecodeStore(Decoder& decoder) { return DecodeAccess(decoder, false, OrderOf(decoder)); }

void Nothing(Warp&, const Insn&, uint32_t) {}

/// Decodes hints, which have no effect on results.
bool DecodeHint(Decoder& decoder) {
  decoder.out.run = Nothing;
  return true;
}

bool DecodeCreatePolicy(Decoder& decoder) {
  // A cache policy is opaque. Any value is right, because all accesses ignore it.
  if (decoder.OperandCount() < 1) return false;
  Insn& out = decoder.out;
  out.d = decoder.Destination(0, Type::kB64);
  out.run = [](Warp& warp, const Insn& in, uint32_t active) {
    uint64_t* d = warp.Row<uint64_t>(in.d);
    ForLanes(active, [=](uint32_t lane) { d[lane] = 0; });
  };
  return true;
}

}  // namespace

void AddMemoryOps(OpTable& table) {
  table["ld"] = DecodeLoad;
  table["ldu"] = DecodeUniformLoad;
  table["st"] = DecodeStore;
  for (const char* name : {"prefetch", "prefetchu", "discard", "applypriority", "pmevent",
                           "setmaxnreg", "griddepcontrol", "nop"}) {
    table[name] = DecodeHint;
  }
  table["createpolicy"] = DecodeCreatePolicy;
}

}  // namespace cupola::sim
