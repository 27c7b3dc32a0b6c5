// mov, cvta, isspacep, mapa, getctarank [PTX ISA 9.7.9].
#include <cstring>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

using Kind = ptx::Operand::Kind;

struct Same {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

void Move128(Warp& warp, const Insn& in, uint32_t active) {
  uint8_t* d = warp.Row<uint8_t>(in.d);
  const uint8_t* a = warp.Row<uint8_t>(in.a);
  ForLanes(active, [=](uint32_t lane) { std::memcpy(d + lane * 16, a + lane * 16, 16); });
}

void MovePredicate(Warp& warp, const Insn& in, uint32_t active) {
  warp.SetPred(in.d, active, warp.Pred(in.a));
}

uint64_t ReadPart(Warp& warp, Ref ref, uint32_t bytes, uint32_t lane, uint32_t word) {
  if (bytes == 16) return warp.Row<uint64_t>(ref)[lane * 2 + word];
  return bytes == 8 ? warp.Row<uint64_t>(ref)[lane] : warp.Row<uint32_t>(ref)[lane];
}

/// Packs small parts into one register. small: bytes of a part; list: their Refs; flags: their
/// number.
void Pack(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* parts = &warp.block->program->lists[in.list];
  const uint32_t bits = in.small * 8u;
  ForLanes(active, [&](uint32_t lane) {
    if (bits == 64) {
      for (uint32_t i = 0; i < 2; ++i) {
        warp.Row<uint64_t>(in.d)[lane * 2 + i] = warp.Row<uint64_t>(parts[i])[lane];
      }
      return;
    }
    uint64_t value = 0;
    for (uint32_t i = 0; i < in.flags; ++i) {
      value |= (ReadPart(warp, parts[i], in.small, lane, 0) & ((1ull << bits) - 1)) << (i * bits);
    }
    if (in.imm == 8) {
      warp.Row<uint64_t>(in.d)[lane] = value;
    } else {
      warp.Row<uint32_t>(in.d)[lane] = static_cast<uint32_t>(value);
    }
  });
}

void Unpack(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* parts = &warp.block->program->lists[in.list];
  const uint32_t bits = in.small * 8u;
  ForLanes(active, [&](uint32_t lane) {
    uint64_t words[2] = {ReadPart(warp, in.a, static_cast<uint32_t>(in.imm), lane, 0), 0};
    if (in.imm == 16) words[1] = ReadPart(warp, in.a, 16, lane, 1);
    for (uint32_t i = 0; i < in.flags; ++i) {
      const uint32_t at = i * bits;
      const uint64_t part = words[at / 64] >> (at % 64);
      if (bits == 64) {
        warp.Row<uint64_t>(parts[i])[lane] = part;
      } else {
        warp.Row<uint32_t>(parts[i])[lane] = static_cast<uint32_t>(part & ((1ull << bits) - 1));
      }
    }
  });
}

Type PartType(uint32_t bytes) {
  return bytes == 8 ? Type::kB64 : bytes == 4 ? Type::kB32 : bytes == 2 ? Type::kB16 : Type::kB8;
}

bool DecodePack(Decoder& decoder, Type type, bool pack) {
  const ptx::Operand& vector = decoder.Operand(pack ? 1 : 0);
  const size_t count = vector.children.size();
  if (count < 2 || count > 8 || TypeBytes(type) % count != 0) return false;
  const uint32_t part = TypeBytes(type) / static_cast<uint32_t>(count);
  Insn& out = decoder.out;
  std::vector<uint32_t> refs;
  for (const ptx::Operand& child : vector.children) {
    refs.push_back(pack ? decoder.Source(child, PartType(part))
                        : decoder.Destination(child, PartType(part)));
  }
  out.list = decoder.AddList(refs);
  out.flags = static_cast<uint8_t>(count);
  out.small = static_cast<uint16_t>(part);
  out.imm = TypeBytes(type);
  if (pack) {
    out.d = decoder.Destination(0, type);
    out.run = Pack;
  } else {
    out.a = decoder.Source(1, type);
    out.run = Unpack;
  }
  return true;
}

bool DecodeMov(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 2 || type == Type::kNone) return false;
  if (decoder.Operand(0).kind == Kind::kVector) return DecodePack(decoder, type, false);
  if (decoder.Operand(1).kind == Kind::kVector) return DecodePack(decoder, type, true);
  if (type == Type::kPred) return Simple(decoder, type, MovePredicate);
  if (type == Type::kB128) return Simple(decoder, type, Move128);
  // A special register may be wider or narrower than the destination (%clock64, %laneid).
  const bool wide = CellBytes(type) == 8;
  Type special_type = Type::kNone;
  const ptx::Operand& from = decoder.Operand(1);
  if (from.kind == Kind::kName) {
    if (const Handler special = SpecialRegister(from.text, &special_type)) {
      decoder.out.run = special;
      decoder.out.d = decoder.Destination(0, type);
      decoder.out.small = wide ? 8 : 4;
      return true;
    }
  }
  return Simple(decoder, type,
                wide ? Map1<uint64_t, uint64_t, Same> : Map1<uint32_t, uint32_t, Same>);
}

// ---- generic addresses ----

/// cvta. small: the Space; flags: 1 from generic to the space, 0 from the space to generic.
template <typename D, typename A>
void ConvertAddress(Warp& warp, const Insn& in, uint32_t active) {
  D* d = warp.Row<D>(in.d);
  const A* a = warp.Row<A>(in.a);
  uint64_t window = 0;
  const Space space = static_cast<Space>(in.small);
  if (space == Space::kShared) window = warp.windows.shared();
  if (space == Space::kLocal) window = warp.windows.local();
  const bool to_space = in.flags != 0;
  if (space == Space::kParam) {
    ForLanes(active, [&](uint32_t lane) {
      const uint64_t value = a[lane];
      const bool tagged = (value & kFunctionParamTag) != 0;
      if (!to_space) {
        d[lane] = static_cast<D>(tagged ? warp.windows.local() + (value & ~kFunctionParamTag)
                                        : warp.windows.param() + value);
      } else {
        const bool kernel = value >= warp.windows.param();
        d[lane] = static_cast<D>(kernel ? value - warp.windows.param()
                                        : value - warp.windows.local() + kFunctionParamTag);
      }
    });
    return;
  }
  const uint64_t delta = to_space ? 0 - window : window;
  ForLanes(active, [=](uint32_t lane) { d[lane] = static_cast<D>(a[lane] + delta); });
}

bool DecodeCvta(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 2 || CellBytes(type) < 4) return false;
  const Space space = SpaceOf(decoder.in());
  Insn& out = decoder.out;
  out.flags = decoder.Has("to");
  out.small = static_cast<uint16_t>(space);
  const Type from = decoder.RegisterType(decoder.Operand(1), type);
  const Type to = decoder.RegisterType(decoder.Operand(0), type);
  out.a = decoder.Source(1, type);
  out.d = decoder.Destination(0, type);
  const bool wide_from = CellBytes(from) == 8, wide_to = CellBytes(to) == 8;
  out.run =
      wide_to
          ? (wide_from ? ConvertAddress<uint64_t, uint64_t> : ConvertAddress<uint64_t, uint32_t>)
          : (wide_from ? ConvertAddress<uint32_t, uint64_t> : ConvertAddress<uint32_t, uint32_t>);
  return true;
}

void IsSpace(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t* a = warp.Row<uint64_t>(in.a);
  const Space space = static_cast<Space>(in.small);
  uint32_t result = 0;
  ForLanes(active, [&](uint32_t lane) {
    const uint64_t window = a[lane] - warp.windows.base;
    const Space own = window >= 3 * Windows::kBytes  ? Space::kGlobal
                      : window < Windows::kBytes     ? Space::kShared
                      : window < 2 * Windows::kBytes ? Space::kLocal
                                                     : Space::kParam;
    bool is = own == space;
    if (space == Space::kGeneric) {  // isspacep.const asks whether it is inside a constant variable
      is = false;
      for (const GlobalInfo& global : warp.block->program->global_infos) {
        is |= global.is_constant && a[lane] - global.address < global.bytes;
      }
    }
    if (is) result |= 1u << lane;
  });
  warp.SetPred(in.d, active, result);
}

bool DecodeIsSpace(Decoder& decoder) {
  if (decoder.OperandCount() != 2) return false;
  const Space space = decoder.Has("const") ? Space::kGeneric : SpaceOf(decoder.in());
  if (CellBytes(decoder.RegisterType(decoder.Operand(1), Type::kU64)) != 8) return false;
  decoder.out.a = decoder.Source(1, Type::kU64);
  decoder.out.d = decoder.Destination(0, Type::kPred);
  decoder.out.small = static_cast<uint16_t>(space);
  decoder.out.run = IsSpace;
  return true;
}

/// mapa: every cluster has one block, so an address maps to itself.
bool DecodeMapa(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() != 3) return false;
  decoder.out.a = decoder.Source(1, type);
  decoder.out.d = decoder.Destination(0, type);
  decoder.out.run =
      CellBytes(type) == 8 ? Map1<uint64_t, uint64_t, Same> : Map1<uint32_t, uint32_t, Same>;
  return true;
}

}  // namespace

void RunNotPredicate(Warp& warp, const Insn& in, uint32_t active) {
  warp.SetPred(in.d, active, ~warp.Pred(in.a));
}

void RunLocalAddress(Warp& warp, const Insn& in, uint32_t active) {
  uint64_t value = warp.group_local + static_cast<uint64_t>(in.imm);
  if (in.flags != 0) value |= kFunctionParamTag;
  ForLanes(active, [&](uint32_t lane) {
    if (in.small == 8) {
      warp.Row<uint64_t>(in.d)[lane] = value;
    } else {
      warp.Row<uint32_t>(in.d)[lane] = static_cast<uint32_t>(value);
    }
  });
}

void RunDynamicShared(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value =
      kSharedBase + warp.block->dynamic_shared_at + static_cast<uint64_t>(in.imm);
  ForLanes(active, [&](uint32_t lane) {
    if (in.small == 8) {
      warp.Row<uint64_t>(in.d)[lane] = value;
    } else {
      warp.Row<uint32_t>(in.d)[lane] = static_cast<uint32_t>(value);
    }
  });
}

Space SpaceOf(const ptx::Instruction& instruction) {
  for (const std::string& modifier : instruction.modifiers) {
    if (modifier == "global" || modifier == "const") return Space::kGlobal;
    if (modifier.starts_with("shared")) return Space::kShared;
    if (modifier == "local") return Space::kLocal;
    if (modifier.starts_with("param")) return Space::kParam;
  }
  return Space::kGeneric;
}

void AddMoveOps(OpTable& table) {
  table["mov"] = DecodeMov;
  table["cvta"] = DecodeCvta;
  table["isspacep"] = DecodeIsSpace;
  table["mapa"] = DecodeMapa;
}

}  // namespace cupola::sim
