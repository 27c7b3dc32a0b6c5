// bar, barrier, barrier.cluster, nanosleep [PTX ISA 9.7.13.1-4, 9.7.19]. For mbarrier see ops_copy.cpp.
#include <fmt/format.h>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint8_t kOnlyArrives = 1;
constexpr uint32_t kClusterBarrier = 16;  // index behind the 16 named ones

/// Whether the lane may wait at barrier `index`; raises a fault if not. Where lanes of a warp come to different barrier
/// instructions, a GPU gathers all of them and executes one of the instructions for all (WARPSYNC.COLLECTIVE), so all
/// must name one barrier. Lanes that only arrive do not wait, and are not gathered with lanes that wait.
bool AllMeanOne(Warp& warp, const Insn& in, uint32_t lane, uint32_t index) {
  if (in.aligned || (in.flags & kOnlyArrives) != 0) return true;
  for (uint32_t other = 0; other < kClusterBarrier; ++other) {
    const uint32_t waiting = warp.block->barriers[other].waiting[warp.index] & warp.live;
    if (other == index || waiting == 0) continue;
    if (warp.code[warp.pc[std::countr_zero(waiting)]].aligned) continue;
    warp.Raise(FaultKind::kIllegalInstruction, lane,
               fmt::format("barrier {}, while lanes of the warp wait at barrier {}", index, other));
    return false;
  }
  return true;
}

/// The lanes arrive at a barrier; Block::CheckBarrier completes it. small: 0 sync, 1 red.popc, 2 red.and,
/// 3 red.or.
void BarrierLanes(Warp& warp, const Insn& in, uint32_t active) {
  Block& block = *warp.block;
  const uint32_t here = warp.group_pc - 1;
  const uint32_t* index = warp.Row<uint32_t>(in.a);
  const uint32_t* count = in.b == kNoRef ? nullptr : warp.Row<uint32_t>(in.b);
  const uint32_t predicate = in.c == kNoRef ? 0 : warp.Pred(in.c);
  warp.CountProgress();
  warp.Park();
  uint32_t touched = 0;
  ForLanes(active, [&](uint32_t lane) {
    if (index[lane] >= block.barriers.size()) {
      warp.Raise(FaultKind::kIllegalInstruction, lane,
                 fmt::format("barrier {} of 16", index[lane]));
      return;
    }
    if (!AllMeanOne(warp, in, lane, index[lane])) return;
    Barrier& barrier = block.barriers[index[lane]];
    touched |= 1u << index[lane];
    if (warp.observer != nullptr)
      warp.observer->ArriveAtBarrier(warp, lane, index[lane], count != nullptr);
    barrier.arrived[warp.index] |= 1u << lane;
    ++barrier.count;
    if (count != nullptr) barrier.expected = count[lane];
    const bool vote = ((predicate >> lane) & 1) != 0;
    barrier.popc += vote;
    barrier.all &= vote;
    barrier.any |= vote;
    if ((in.flags & kOnlyArrives) != 0) return;
    barrier.waiting[warp.index] |= 1u << lane;
    warp.status[lane] = LaneStatus::kBarrier;
    warp.pc[lane] = here;
  });
  for (; touched != 0; touched &= touched - 1) {
    block.CheckBarrier(static_cast<uint32_t>(std::countr_zero(touched)));
  }
}

void NoBarrier(Warp&, const Insn&, uint32_t) {}

bool DecodeBar(Decoder& decoder) {
  if (decoder.Has("warp")) return Opcodes().at("bar warp")(decoder);
  Insn& out = decoder.out;
  if (decoder.Has("cluster")) {
    // A cluster is one block here. So barrier.cluster.wait is a barrier for all threads of the block,
    // and the arrival before it needs no count of its own.
    out.run = decoder.Has("wait") ? BarrierLanes : NoBarrier;
    out.a = decoder.Constant(kClusterBarrier, Type::kU32);
    return true;
  }
  out.aligned = decoder.in().opcode == "bar" || decoder.Has("aligned");
  const bool red = decoder.Has("red");
  const size_t first = red ? 1 : 0;
  const size_t count = decoder.OperandCount();
  if (count < first + 1) return false;
  out.run = BarrierLanes;
  out.a = decoder.Source(first, Type::kU32);
  if (count == first + (red ? 3 : 2)) out.b = decoder.Source(first + 1, Type::kU32);
  if (red) {
    const bool popc = decoder.Has("popc");
    out.c = decoder.Source(count - 1, Type::kPred);
    out.d = decoder.Destination(0, popc ? Type::kU32 : Type::kPred);
    out.small = popc ? 1 : decoder.Has("and") ? 2 : 3;
    return count == first + 2 || count == first + 3;
  }
  out.flags = decoder.Has("arrive") ? kOnlyArrives : 0;
  return count <= 2;
}

void Nanosleep(Warp& warp, const Insn& in, uint32_t active) {
  warp.AwaitOthers();
  if (warp.observer == nullptr || in.a == kNoRef) return;
  const uint32_t* nanoseconds = warp.Row<uint32_t>(in.a);
  ForLanes(active, [&](uint32_t lane) { warp.observer->Sleep(warp, lane, nanoseconds[lane]); });
}

bool DecodeNanosleep(Decoder& decoder) {
  decoder.out.run = Nanosleep;
  if (decoder.OperandCount() == 1) decoder.out.a = decoder.Source(0, Type::kU32);
  return true;
}

}  // namespace

void AddBarrierOps(OpTable& table) {
  table["bar"] = DecodeBar;
  table["barrier"] = DecodeBar;
  table["nanosleep"] = DecodeNanosleep;
}

}  // namespace cupola::sim
