// Special registers [PTX ISA 10]. A handler writes 64-bit cells when Insn::small is 8, else 32-bit
// ones.
#include <string>
#include <unordered_map>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

template <typename Value>
void Put(Warp& warp, const Insn& in, uint32_t active, Value value) {
  if (in.small == 8) {
    uint64_t* d = warp.Row<uint64_t>(in.d);
    ForLanes(active, [&](uint32_t lane) { d[lane] = value(lane); });
  } else {
    uint32_t* d = warp.Row<uint32_t>(in.d);
    ForLanes(active, [&](uint32_t lane) { d[lane] = static_cast<uint32_t>(value(lane)); });
  }
}

uint32_t Axis(const Dim3& dim, char axis) {
  return axis == 'x' ? dim.x : axis == 'y' ? dim.y : dim.z;
}

template <char kAxis>
void Tid(Warp& warp, const Insn& in, uint32_t active) {
  const Dim3 shape = warp.block->grid->block;
  const uint32_t first = warp.index * kLanes;
  Put(warp, in, active, [=](uint32_t lane) -> uint64_t {
    const uint32_t thread = first + lane;
    if (kAxis == 'x') return thread % shape.x;
    if (kAxis == 'y') return thread / shape.x % shape.y;
    return thread / shape.x / shape.y;
  });
}

template <char kAxis>
void Ntid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = Axis(warp.block->grid->block, kAxis);
  Put(warp, in, active, [=](uint32_t) { return value; });
}

template <char kAxis>
void Ctaid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = Axis(warp.block->index, kAxis);
  Put(warp, in, active, [=](uint32_t) { return value; });
}

template <char kAxis>
void Nctaid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = Axis(warp.block->grid->grid, kAxis);
  Put(warp, in, active, [=](uint32_t) { return value; });
}

template <uint32_t kValue>
void Fixed(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t) { return kValue; });
}

void Laneid(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return lane; });
}
void Warpid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = warp.index;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void Nwarpid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = static_cast<uint32_t>(warp.block->warps.size());
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void Smid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = warp.block->sm;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void Nsmid(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = warp.block->machine->sm_count;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void Gridid(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value = warp.block->grid->id;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void Globaltimer(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value = warp.block->machine->now_ns(warp.block->machine->now_self);
  Put(warp, in, active, [=](uint32_t) { return value; });
  warp.CountLook(0);  // who looks at the clock again and again waits until it is late enough
}
void GlobaltimerHigh(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value = warp.block->machine->now_ns(warp.block->machine->now_self) >> 32;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
/// The clock of an SM that runs at 1 GHz.
void ClockHigh(Warp& warp, const Insn& in, uint32_t active) { GlobaltimerHigh(warp, in, active); }

void DynamicShared(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = warp.block->grid->dynamic_shared_bytes;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void TotalShared(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t value = warp.block->shared_bytes;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void WorkspaceLow(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value = warp.block->grid->workspace & 0xFFFFFFFFu;
  Put(warp, in, active, [=](uint32_t) { return value; });
}
void WorkspaceHigh(Warp& warp, const Insn& in, uint32_t active) {
  const uint64_t value = warp.block->grid->workspace >> 32;
  Put(warp, in, active, [=](uint32_t) { return value; });
}

void MaskEqual(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return 1u << lane; });
}
void MaskLess(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return (1u << lane) - 1; });
}
void MaskLessEqual(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return (2u << lane) - 1; });
}
void MaskGreater(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return ~((2u << lane) - 1); });
}
void MaskGreaterEqual(Warp& warp, const Insn& in, uint32_t active) {
  Put(warp, in, active, [](uint32_t lane) { return ~((1u << lane) - 1); });
}

void NotExplicit(Warp& warp, const Insn& in, uint32_t active) { warp.SetPred(in.d, active, 0); }

struct Entry {
  Handler handler;
  Type type;
};

std::unordered_map<std::string_view, Entry> MakeTable() {
  constexpr Type k32 = Type::kU32, k64 = Type::kU64;
  return {
      {"%tid.x", {Tid<'x'>, k32}},
      {"%tid.y", {Tid<'y'>, k32}},
      {"%tid.z", {Tid<'z'>, k32}},
      {"%ntid.x", {Ntid<'x'>, k32}},
      {"%ntid.y", {Ntid<'y'>, k32}},
      {"%ntid.z", {Ntid<'z'>, k32}},
      {"%ctaid.x", {Ctaid<'x'>, k32}},
      {"%ctaid.y", {Ctaid<'y'>, k32}},
      {"%ctaid.z", {Ctaid<'z'>, k32}},
      {"%nctaid.x", {Nctaid<'x'>, k32}},
      {"%nctaid.y", {Nctaid<'y'>, k32}},
      {"%nctaid.z", {Nctaid<'z'>, k32}},
      {"%laneid", {Laneid, k32}},
      {"%warpid", {Warpid, k32}},
      {"%nwarpid", {Nwarpid, k32}},
      {"%smid", {Smid, k32}},
      {"%nsmid", {Nsmid, k32}},
      {"%gridid", {Gridid, k64}},
      {"%clock", {Globaltimer, k32}},
      {"%clock_hi", {ClockHigh, k32}},
      {"%clock64", {Globaltimer, k64}},
      {"%globaltimer", {Globaltimer, k64}},
      {"%globaltimer_lo", {Globaltimer, k32}},
      {"%globaltimer_hi", {GlobaltimerHigh, k32}},
      {"%lanemask_eq", {MaskEqual, k32}},
      {"%lanemask_lt", {MaskLess, k32}},
      {"%lanemask_le", {MaskLessEqual, k32}},
      {"%lanemask_gt", {MaskGreater, k32}},
      {"%lanemask_ge", {MaskGreaterEqual, k32}},
      {"%dynamic_smem_size", {DynamicShared, k32}},
      {"%total_smem_size", {TotalShared, k32}},
      {"%aggr_smem_size", {TotalShared, k32}},
      {"%reserved_smem_offset_begin", {Fixed<0>, k32}},
      {"%reserved_smem_offset_end", {Fixed<kSharedBase>, k32}},
      {"%reserved_smem_offset_cap", {Fixed<kSharedBase>, k32}},
      {"%reserved_smem_offset_0", {Fixed<kReservedAt>, k32}},
      {"%reserved_smem_offset_1", {Fixed<kReservedAt>, k32}},
      {"%current_graph_exec", {Fixed<0>, k64}},
      {"%is_explicit_cluster", {NotExplicit, Type::kPred}},
      {"%envreg1", {WorkspaceHigh, k32}},
      {"%envreg2", {WorkspaceLow, k32}},
      // A cluster is one block here.
      {"%clusterid.x", {Ctaid<'x'>, k32}},
      {"%clusterid.y", {Ctaid<'y'>, k32}},
      {"%clusterid.z", {Ctaid<'z'>, k32}},
      {"%nclusterid.x", {Nctaid<'x'>, k32}},
      {"%nclusterid.y", {Nctaid<'y'>, k32}},
      {"%nclusterid.z", {Nctaid<'z'>, k32}},
      {"%cluster_ctarank", {Fixed<0>, k32}},
      {"%cluster_nctarank", {Fixed<1>, k32}},
      {"%cluster_ctaid.x", {Fixed<0>, k32}},
      {"%cluster_ctaid.y", {Fixed<0>, k32}},
      {"%cluster_ctaid.z", {Fixed<0>, k32}},
      {"%cluster_nctaid.x", {Fixed<1>, k32}},
      {"%cluster_nctaid.y", {Fixed<1>, k32}},
      {"%cluster_nctaid.z", {Fixed<1>, k32}},
  };
}

}  // namespace

Handler SpecialRegister(std::string_view name, Type* type) {
  static const auto table = MakeTable();
  const auto it = table.find(name);
  if (it != table.end() && it->second.handler != nullptr) {
    *type = it->second.type;
    return it->second.handler;
  }
  // The other environment registers hold 0.
  if (name.starts_with("%envreg") && name.size() > 7) {
    *type = Type::kU32;
    return Fixed<0>;
  }
  // The performance counters do not count; they hold 0.
  if (name.starts_with("%pm") && name.size() > 3) {
    *type = name.ends_with("_64") ? Type::kU64 : Type::kU32;
    return Fixed<0>;
  }
  return nullptr;
}

}  // namespace cupola::sim
