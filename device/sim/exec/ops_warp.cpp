// Instructions that join the lanes of a warp: shfl, vote, match, redux, elect, bar.warp.sync,
// activemask [PTX ISA 9.7.9.5-6, 9.7.13.9-16]. A lane that arrives leaves its operands in
// Warp::sync and waits. When all live lanes of its mask have arrived, the results are written for
// all of them at once. Exited lanes are not waited for.
#include <algorithm>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

enum class WarpOp : uint16_t {
  kBarrier,
  kShflUp,
  kShflDown,
  kShflBfly,
  kShflIdx,
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduxAdd,
  kReduxMinU,
  kReduxMaxU,
  kReduxMinS,
  kReduxMaxS,
  kReduxAnd,
  kReduxOr,
  kReduxXor,
  kElect,
};

constexpr uint8_t kWide = 1, kMaskIsActive = 2, kPredicateSource = 4;

uint32_t* RowOf(Warp& warp, uint32_t lane, Ref ref) {
  return reinterpret_cast<uint32_t*>(warp.registers + warp.frame[lane] + ref);
}

void PutBit(Warp& warp, uint32_t lane, Ref ref, bool value) {
  uint32_t* row = RowOf(warp, lane, ref);
  *row = value ? *row | 1u << lane : *row & ~(1u << lane);
}

/// The source lane of a shuffle and whether it is in range [9.7.9.6].
std::pair<uint32_t, bool> ShuffleSource(WarpOp op, uint32_t lane, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 31, segment = (c >> 8) & 31;
  const uint32_t max_lane = (lane & segment) | (c & 31 & ~segment);
  const uint32_t min_lane = lane & segment;
  int32_t from = static_cast<int32_t>(lane);
  bool in_range = false;
  switch (op) {
    case WarpOp::kShflUp:
      from -= static_cast<int32_t>(offset);
      in_range = from >= static_cast<int32_t>(max_lane);
      break;
    case WarpOp::kShflDown:
      from += static_cast<int32_t>(offset);
      in_range = from <= static_cast<int32_t>(max_lane);
      break;
    case WarpOp::kShflBfly:
      from ^= static_cast<int32_t>(offset);
      in_range = from <= static_cast<int32_t>(max_lane);
      break;
    default:
      from = static_cast<int32_t>(min_lane | (offset & ~segment));
      in_range = from <= static_cast<int32_t>(max_lane);
      break;
  }
  return {in_range ? static_cast<uint32_t>(from) : lane, in_range};
}

uint32_t Reduce(const Warp& warp, WarpOp op, uint32_t lanes) {
  uint32_t result = warp.sync[static_cast<uint32_t>(std::countr_zero(lanes))].a;
  ForLanes(lanes & (lanes - 1), [&](uint32_t lane) {
    const uint32_t a = warp.sync[lane].a;
    switch (op) {
      case WarpOp::kReduxAdd:
        result += a;
        break;
      case WarpOp::kReduxMinU:
        result = std::min(result, a);
        break;
      case WarpOp::kReduxMaxU:
        result = std::max(result, a);
        break;
      case WarpOp::kReduxMinS:
        result =
            static_cast<uint32_t>(std::min(static_cast<int32_t>(result), static_cast<int32_t>(a)));
        break;
      case WarpOp::kReduxMaxS:
        result =
            static_cast<uint32_t>(std::max(static_cast<int32_t>(result), static_cast<int32_t>(a)));
        break;
      case WarpOp::kReduxAnd:
        result &= a;
        break;
      case WarpOp::kReduxOr:
        result |= a;
        break;
      default:
        result ^= a;
        break;
    }
  });
  return result;
}

void CompleteVote(Warp& warp, WarpOp op, uint32_t lanes) {
  uint32_t votes = 0;
  ForLanes(lanes, [&](uint32_t lane) { votes |= (warp.sync[lane].a & 1) << lane; });
  ForLanes(lanes, [&](uint32_t lane) {
    const Insn& in = warp.code[warp.pc[lane]];
    switch (op) {
      case WarpOp::kVoteAll:
        PutBit(warp, lane, in.d, votes == lanes);
        break;
      case WarpOp::kVoteAny:
        PutBit(warp, lane, in.d, votes != 0);
        break;
      case WarpOp::kVoteUni:
        PutBit(warp, lane, in.d, votes == lanes || votes == 0);
        break;
      default:
        RowOf(warp, lane, in.d)[lane] = votes;
        break;
    }
  });
}

void CompleteMatch(Warp& warp, WarpOp op, uint32_t lanes) {
  ForLanes(lanes, [&](uint32_t lane) {
    const Insn& in = warp.code[warp.pc[lane]];
    uint32_t same = 0;
    ForLanes(lanes, [&](uint32_t other) {
      if (warp.sync[other].wide == warp.sync[lane].wide) same |= 1u << other;
    });
    if (op == WarpOp::kMatchAny) {
      RowOf(warp, lane, in.d)[lane] = same;
      return;
    }
    RowOf(warp, lane, in.d)[lane] = same == lanes ? lanes : 0;
    if (in.e != kNoRef) PutBit(warp, lane, in.e, same == lanes);
  });
}

void CompleteShuffle(Warp& warp, WarpOp op, uint32_t lanes) {
  ForLanes(lanes, [&](uint32_t lane) {
    const Insn& in = warp.code[warp.pc[lane]];
    const auto [from, in_range] = ShuffleSource(op, lane, warp.sync[lane].b, warp.sync[lane].c);
    // To read from a lane that takes no part is undefined. Here the lane then reads its own value.
    const uint32_t source = (lanes >> from) & 1 ? from : lane;
    RowOf(warp, lane, in.d)[lane] = warp.sync[source].a;
    if (in.e != kNoRef) PutBit(warp, lane, in.e, in_range);
  });
}

/// Called when all live lanes of the mask have arrived: writes the results and lets the lanes go
/// on.
void Complete(Warp& warp, WarpOp op, uint32_t lanes) {
  switch (op) {
    case WarpOp::kBarrier:
      if (warp.observer != nullptr) warp.observer->CompleteWarpBarrier(warp, lanes);
      break;
    case WarpOp::kShflUp:
    case WarpOp::kShflDown:
    case WarpOp::kShflBfly:
    case WarpOp::kShflIdx:
      CompleteShuffle(warp, op, lanes);
      break;
    case WarpOp::kVoteAll:
    case WarpOp::kVoteAny:
    case WarpOp::kVoteUni:
    case WarpOp::kVoteBallot:
      CompleteVote(warp, op, lanes);
      break;
    case WarpOp::kMatchAny:
    case WarpOp::kMatchAll:
      CompleteMatch(warp, op, lanes);
      break;
    case WarpOp::kElect: {
      const uint32_t leader = static_cast<uint32_t>(std::countr_zero(lanes));
      ForLanes(lanes, [&](uint32_t lane) {
        const Insn& in = warp.code[warp.pc[lane]];
        RowOf(warp, lane, in.d)[lane] = leader;
        if (in.e != kNoRef) PutBit(warp, lane, in.e, lane == leader);
      });
      break;
    }
    default: {
      const uint32_t value = Reduce(warp, op, lanes);
      ForLanes(lanes,
               [&](uint32_t lane) { RowOf(warp, lane, warp.code[warp.pc[lane]].d)[lane] = value; });
      break;
    }
  }
  ForLanes(lanes, [&](uint32_t lane) {
    warp.status[lane] = LaneStatus::kReady;
    ++warp.pc[lane];
  });
}

void Arrive(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t here = warp.group_pc - 1;
  const uint32_t* mask = (in.flags & kMaskIsActive) != 0 ? nullptr : warp.Row<uint32_t>(in.list);
  const uint32_t predicate = (in.flags & kPredicateSource) != 0 ? warp.Pred(in.a) : 0;
  ForLanes(active, [&](uint32_t lane) {
    SyncArrival& arrival = warp.sync[lane];
    arrival.mask = mask == nullptr ? active : mask[lane];
    if ((in.flags & kPredicateSource) != 0) {
      arrival.a = (predicate >> lane) & 1;
    } else if ((in.flags & kWide) != 0) {
      arrival.wide = warp.Row<uint64_t>(in.a)[lane];
    } else if (in.a != kNoRef) {
      arrival.a = warp.Row<uint32_t>(in.a)[lane];
      arrival.wide = arrival.a;
    }
    if (in.b != kNoRef) arrival.b = warp.Row<uint32_t>(in.b)[lane];
    if (in.c != kNoRef) arrival.c = warp.Row<uint32_t>(in.c)[lane];
  });
  const uint32_t first_mask = warp.sync[static_cast<uint32_t>(std::countr_zero(active))].mask;
  bool uniform = (first_mask & warp.live) == active && active == warp.group && !warp.split;
  if (uniform) {
    ForLanes(active, [&](uint32_t lane) { uniform &= warp.sync[lane].mask == first_mask; });
  }
  const uint32_t group = warp.group;
  warp.Park();
  ForLanes(active, [&](uint32_t lane) { warp.pc[lane] = here; });
  if (uniform) {
    // The whole warp has arrived together, so nobody is missing and the group stays.
    Complete(warp, static_cast<WarpOp>(in.small), active);
    warp.group = group;
    warp.choose = false;
    return;
  }
  ForLanes(active, [&](uint32_t lane) { warp.status[lane] = LaneStatus::kWarpSync; });
  warp.CheckWarpSync();
}

/// Sets the destinations from an operand "d" or "d|p".
void UseResult(Decoder& decoder, const ptx::Operand& operand, Type type) {
  if (operand.kind == ptx::Operand::Kind::kPair) {
    decoder.out.d = decoder.Destination(operand.children[0], type);
    decoder.out.e = decoder.Destination(operand.children[1], Type::kPred);
  } else {
    decoder.out.d = decoder.Destination(operand, type);
  }
}

/// Takes the member mask from operand `n`. Forms without .sync join the lanes that happen to be
/// active.
bool UseMask(Decoder& decoder, size_t n) {
  if (!decoder.Has("sync")) {
    decoder.out.flags |= kMaskIsActive;
    return decoder.OperandCount() == n;
  }
  if (decoder.OperandCount() != n + 1) return false;
  decoder.out.list = decoder.Source(n, Type::kB32);
  return true;
}

bool Finish(Decoder& decoder, WarpOp op) {
  decoder.out.small = static_cast<uint16_t>(op);
  decoder.out.run = Arrive;
  return true;
}

bool DecodeShfl(Decoder& decoder) {
  if (decoder.OperandCount() < 4 || !UseMask(decoder, 4)) return false;
  decoder.out.a = decoder.Source(1, Type::kB32);
  decoder.out.b = decoder.Source(2, Type::kB32);
  decoder.out.c = decoder.Source(3, Type::kB32);
  UseResult(decoder, decoder.Operand(0), Type::kB32);
  return Finish(decoder, decoder.Has("up")     ? WarpOp::kShflUp
                         : decoder.Has("down") ? WarpOp::kShflDown
                         : decoder.Has("bfly") ? WarpOp::kShflBfly
                                               : WarpOp::kShflIdx);
}

bool DecodeVote(Decoder& decoder) {
  if (decoder.OperandCount() < 2 || !UseMask(decoder, 2)) return false;
  const bool ballot = decoder.Has("ballot");
  decoder.out.flags |= kPredicateSource;
  decoder.out.a = decoder.Source(1, Type::kPred);
  decoder.out.d = decoder.Destination(0, ballot ? Type::kB32 : Type::kPred);
  return Finish(decoder, ballot               ? WarpOp::kVoteBallot
                         : decoder.Has("all") ? WarpOp::kVoteAll
                         : decoder.Has("any") ? WarpOp::kVoteAny
                                              : WarpOp::kVoteUni);
}

bool DecodeMatch(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (decoder.OperandCount() < 3 || !UseMask(decoder, 2)) return false;
  if (CellBytes(type) == 8) decoder.out.flags |= kWide;
  decoder.out.a = decoder.Source(1, type);
  UseResult(decoder, decoder.Operand(0), Type::kB32);
  return Finish(decoder, decoder.Has("any") ? WarpOp::kMatchAny : WarpOp::kMatchAll);
}

bool DecodeRedux(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (TypeBytes(type) != 4 || IsFloat(type) || decoder.OperandCount() < 3 || !UseMask(decoder, 2))
    return false;
  decoder.out.a = decoder.Source(1, type);
  decoder.out.d = decoder.Destination(0, type);
  const bool is_signed = IsSigned(type);
  return Finish(decoder,
                decoder.Has("add")   ? WarpOp::kReduxAdd
                : decoder.Has("min") ? (is_signed ? WarpOp::kReduxMinS : WarpOp::kReduxMinU)
                : decoder.Has("max") ? (is_signed ? WarpOp::kReduxMaxS : WarpOp::kReduxMaxU)
                : decoder.Has("and") ? WarpOp::kReduxAnd
                : decoder.Has("or")  ? WarpOp::kReduxOr
                                     : WarpOp::kReduxXor);
}

bool DecodeElect(Decoder& decoder) {
  if (decoder.OperandCount() != 2 || !UseMask(decoder, 1)) return false;
  UseResult(decoder, decoder.Operand(0), Type::kB32);
  return Finish(decoder, WarpOp::kElect);
}

bool DecodeActiveMask(Decoder& decoder) {
  if (decoder.OperandCount() != 1) return false;
  decoder.out.d = decoder.Destination(0, Type::kB32);
  decoder.out.run = [](Warp& warp, const Insn& in, uint32_t active) {
    uint32_t* d = warp.Row<uint32_t>(in.d);
    ForLanes(active, [=](uint32_t lane) { d[lane] = active; });
  };
  return true;
}

/// bar.warp.sync mask
bool DecodeWarpBarrier(Decoder& decoder) {
  if (decoder.OperandCount() != 1) return false;
  decoder.out.list = decoder.Source(0, Type::kB32);
  return Finish(decoder, WarpOp::kBarrier);
}

}  // namespace

void Warp::CheckWarpSync() {
  uint32_t waiting = 0;
  ForLanes(live, [&](uint32_t lane) {
    if (status[lane] == LaneStatus::kWarpSync) waiting |= 1u << lane;
  });
  while (waiting != 0) {
    const uint32_t first = static_cast<uint32_t>(std::countr_zero(waiting));
    const uint32_t mask = sync[first].mask;
    const uint16_t op = code[pc[first]].small;
    uint32_t arrived = 0;
    ForLanes(waiting, [&](uint32_t lane) {
      if (sync[lane].mask == mask && code[pc[lane]].small == op) arrived |= 1u << lane;
    });
    waiting &= ~arrived;
    if ((mask & live & ~arrived) == 0) Complete(*this, static_cast<WarpOp>(op), arrived);
  }
}

void AddWarpOps(OpTable& table) {
  table["shfl"] = DecodeShfl;
  table["vote"] = DecodeVote;
  table["match"] = DecodeMatch;
  table["redux"] = DecodeRedux;
  table["elect"] = DecodeElect;
  table["activemask"] = DecodeActiveMask;
  table["bar warp"] = DecodeWarpBarrier;
}

}  // namespace cupola::sim
