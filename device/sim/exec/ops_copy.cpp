// cp.async, whose copies are made at once, and mbarrier [PTX ISA 9.7.9.25, 9.7.13.15]. An mbarrier
// is one 64-bit word. The ISA leaves its layout open; here it is:
// bits 0-19 expected arrivals, 20-39 pending arrivals, 40-62 pending bytes, 63 parity of the phase.
#include <algorithm>
#include <cstring>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint64_t kCount = (1ull << 20) - 1, kBytes = (1ull << 23) - 1, kPhase = 1ull << 63;

uint64_t Expected(uint64_t word) { return word & kCount; }
uint64_t Pending(uint64_t word) { return word >> 20 & kCount; }
uint64_t PendingBytes(uint64_t word) { return word >> 40 & kBytes; }

/// The word with these counts. A phase with nothing pending ends, and the next one begins.
uint64_t Settle(uint64_t phase, uint64_t expected, uint64_t pending, uint64_t bytes) {
  pending &= kCount;
  bytes &= kBytes;
  if (pending == 0 && bytes == 0) {
    phase ^= kPhase;
    pending = expected;
  }
  return phase | bytes << 40 | pending << 20 | expected;
}

enum class BarOp : uint16_t {
  kInit,
  kArrive,
  kDrop,
  kExpect,
  kComplete,
  kTest,
  kTestParity,
  kInvalidate,
  kTouch,  ///< changes nothing, but orders as the arrival that follows the thread's own copies
};

constexpr uint16_t kTry = 512;    // in small: mbarrier.try_wait, for which a thread may be suspended
constexpr uint8_t kAsync = 0x80;  // in flags: the thread's asynchronous copies make the access

/// Reports the operation to the observer: initialisation as a write, the rest as updates. One that
/// only tests writes nothing.
void Observe(Warp& warp, const Insn& in, uint32_t lane, uint8_t* p, BarOp op, uint64_t old,
             bool passed) {
  Access access = AccessTo(in, p, 8);
  access.async = (in.flags & kAsync) != 0;
  if (op == BarOp::kInit || op == BarOp::kInvalidate) {
    warp.observer->Write(warp, lane, access, p);
  } else if (op == BarOp::kTest || op == BarOp::kTestParity) {
    if (!passed) access.order = Order::kRelaxed;
    warp.observer->Update(warp, lane, access, &old, nullptr);
  } else {
    warp.observer->Update(warp, lane, access, &old, p);
  }
}

/// The lanes `active` have found a phase of an mbarrier that has not ended. `word`: that barrier, if it is one for all
/// of them, and what it held.
void AwaitPhase(Warp& warp, const Insn& in, uint32_t active, const uint64_t* word, uint64_t held) {
  if ((in.small & kTry) == 0) return warp.CountLook(held);
  bool only_these = word != nullptr && active == warp.group;
  ForLanes(warp.live & ~active, [&](uint32_t lane) { only_these &= warp.status[lane] == LaneStatus::kWarpSync; });
  warp.AwaitOthers();
  if (!warp.waits || !only_these) return;
  warp.awaited = word;
  warp.awaited_word = held;
}

/// An operation on an mbarrier. small: BarOp, | 256 when the arrival first expects bytes, | kTry; list:
/// Space; b: a count or bytes, or the phase to test; c: the bytes of an arrival.
void MBarrier(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader address(warp, in);
  const BarOp op = static_cast<BarOp>(in.small & 0xFF);
  uint32_t result = 0;
  const uint64_t* one = nullptr;  // the barrier of all lanes, if it is one
  uint64_t held = 0;
  bool several = false;
  ForLanes(active, [&](uint32_t lane) {
    uint8_t* p = ResolveIn(static_cast<Space>(in.list), warp, address(lane), 8, lane);
    if (p == nullptr) return;
    uint64_t* word = reinterpret_cast<uint64_t*>(p);
    const uint64_t old = *word;
    several |= one != nullptr && one != word;
    one = word;
    held = old;
    const uint64_t phase = old & kPhase, expected = Expected(old), pending = Pending(old);
    const uint64_t bytes = PendingBytes(old);
    const uint64_t b = in.b == kNoRef       ? 1
                       : op == BarOp::kTest ? warp.Row<uint64_t>(in.b)[lane]
                                            : warp.Row<uint32_t>(in.b)[lane];
    switch (op) {
      case BarOp::kInit:
        *word = (b & kCount) << 20 | (b & kCount);
        break;
      case BarOp::kArrive:
        if ((in.small & 256) != 0) {
          *word = Settle(phase, expected, pending - 1, bytes + b);
        } else {
          *word = Settle(phase, expected, pending - b, bytes);
        }
        break;
      case BarOp::kDrop:
        *word = Settle(phase, (expected - b) & kCount, pending - b, bytes);
        break;
      case BarOp::kExpect:
        *word = phase | ((bytes + b) & kBytes) << 40 | pending << 20 | expected;
        break;
      case BarOp::kComplete:
        *word = Settle(phase, expected, pending, bytes - b);
        break;
      case BarOp::kTest:
        result |= uint32_t{(b & kPhase) != phase} << lane;
        break;
      case BarOp::kTestParity:
        result |= uint32_t{(b & 1) != phase >> 63} << lane;
        break;
      case BarOp::kInvalidate:
      case BarOp::kTouch:
        break;
    }
    if (warp.observer != nullptr) Observe(warp, in, lane, p, op, old, (result >> lane & 1) != 0);
    if ((op == BarOp::kArrive || op == BarOp::kDrop) && in.d != kNoRef)
      warp.Row<uint64_t>(in.d)[lane] = old;
  });
  if (op == BarOp::kTest || op == BarOp::kTestParity) {
    warp.SetPred(in.d, active, result);
    warp.rested = true;
    if (result == 0) AwaitPhase(warp, in, active, several ? nullptr : one, held);
  } else {
    warp.CountProgress();
  }
}

Space SharedUnlessGeneric(const Decoder& decoder) { return SpaceOf(decoder.in()); }

bool UseBarrier(Decoder& decoder, BarOp op, size_t address, size_t value, Type value_type) {
  Insn& out = decoder.out;
  if (decoder.OperandCount() <= address) return false;
  out.run = MBarrier;
  out.small = static_cast<uint16_t>(op);
  out.list = static_cast<uint32_t>(SharedUnlessGeneric(decoder));
  decoder.UseAddress(decoder.Operand(address));
  if (decoder.OperandCount() > value) out.b = decoder.Source(value, value_type);
  return true;
}

bool DecodeMBarrier(Decoder& decoder) {
  Insn& out = decoder.out;
  if (decoder.Has("init")) return UseBarrier(decoder, BarOp::kInit, 0, 1, Type::kU32);
  if (decoder.Has("inval")) return UseBarrier(decoder, BarOp::kInvalidate, 0, 9, Type::kU32);
  if (decoder.Has("expect_tx") && !decoder.Has("arrive"))
    return UseBarrier(decoder, BarOp::kExpect, 0, 1, Type::kU32);
  if (decoder.Has("complete_tx")) return UseBarrier(decoder, BarOp::kComplete, 0, 1, Type::kU32);
  if (decoder.Has("arrive") || decoder.Has("arrive_drop")) {
    const BarOp op = decoder.Has("arrive") ? BarOp::kArrive : BarOp::kDrop;
    const bool state = decoder.Operand(0).kind != ptx::Operand::Kind::kAddress;
    if (!UseBarrier(decoder, op, state ? 1 : 0, state ? 2 : 1, Type::kU32)) return false;
    if (decoder.Has("expect_tx")) out.small |= 256;
    if (state) out.d = decoder.Destination(0, Type::kB64);
    return true;
  }
  if (decoder.Has("test_wait") || decoder.Has("try_wait")) {
    const bool parity = decoder.Has("parity");
    if (!UseBarrier(decoder, parity ? BarOp::kTestParity : BarOp::kTest, 1, 2,
                    parity ? Type::kU32 : Type::kB64))
      return false;
    out.d = decoder.Destination(0, Type::kPred);
    if (decoder.Has("try_wait")) out.small |= kTry;
    return true;
  }
  return false;
}

// ---- copies ----

Access AsyncTo(const uint8_t* at, uint32_t bytes) {
  return {const_cast<uint8_t*>(at), bytes, Order::kWeak, Scope::kGpu, true};
}

/// Copies to the address (a, imm, flags). list: Ref, offset and flags of the source address, then
/// Space of the destination and of the source. small: bytes to copy, 0 for a bulk copy; b: bytes to
/// read, where the rest of `small` becomes zeros; c: predicate that says to ignore the source.
void Copy(Warp& warp, const Insn& in, uint32_t active) {
  const AddressReader to(warp, in);
  const uint32_t* list = &warp.block->program->lists[in.list];
  Insn source;
  source.a = list[0];
  source.imm = static_cast<int32_t>(list[1]);
  source.flags = static_cast<uint8_t>(list[2]);
  const AddressReader from(warp, source);
  const uint32_t ignore = in.c == kNoRef ? 0 : warp.Pred(in.c);
  const bool bulk = in.small == 0;
  ForLanes(active, [&](uint32_t lane) {
    const uint32_t operand = in.b == kNoRef ? in.small : warp.Row<uint32_t>(in.b)[lane];
    const uint32_t total = bulk ? operand : in.small;
    const uint32_t bytes = ((ignore >> lane) & 1) != 0 ? 0 : std::min(operand, total);
    const uint32_t step = bulk ? 16 : total;
    for (uint32_t at = 0; at < total; at += step) {
      uint8_t* d = ResolveIn(static_cast<Space>(list[3]), warp, to(lane) + at, step, lane);
      if (d == nullptr) return;
      if (warp.observer != nullptr) warp.observer->Write(warp, lane, AsyncTo(d, step), nullptr);
      std::memset(d, 0, step);
      if (bytes <= at) continue;
      // The source is aligned to a whole piece even where less of it is read.
      const uint8_t* s = ResolveIn(static_cast<Space>(list[4]), warp, from(lane) + at,
                                   bytes >= at + step ? step : 1, lane);
      if (s == nullptr) return;
      if (warp.observer != nullptr)
        warp.observer->Read(warp, lane, AsyncTo(s, std::min(step, bytes - at)), nullptr);
      std::memcpy(d, s, std::min(step, bytes - at));
    }
  });
}

/// Commits a group of copies or waits for groups. flags: 1 bulk; small: 0 commit, 1 wait, 2 both;
/// imm: number of groups that may stay unfinished.
void CopyGroup(Warp& warp, const Insn& in, uint32_t active) {
  if (warp.observer == nullptr) return;
  const bool bulk = in.flags != 0;
  if (in.small != 1) warp.observer->CommitCopies(warp, active, bulk);
  if (in.small != 0)
    warp.observer->WaitForCopies(warp, active, bulk, static_cast<uint32_t>(in.imm));
}

bool UseGroup(Decoder& decoder) {
  Insn& out = decoder.out;
  out.run = CopyGroup;
  out.flags = decoder.Has("bulk");
  out.small = decoder.Has("wait_all") ? 2 : decoder.Has("commit_group") ? 0 : 1;
  if (decoder.OperandCount() == 1) out.imm = static_cast<int64_t>(decoder.Operand(0).integer);
  return true;
}

bool UseCopy(Decoder& decoder, Space to, Space from) {
  Insn& out = decoder.out;
  const Address source = decoder.AddressOf(decoder.Operand(1));
  decoder.UseAddress(decoder.Operand(0));
  out.list = decoder.AddList({source.base, static_cast<uint32_t>(source.offset), source.flags,
                              static_cast<uint32_t>(to), static_cast<uint32_t>(from)});
  out.run = Copy;
  return true;
}

/// cp.async.bulk between global and shared memory, without tensor maps [9.7.9.25.4].
bool DecodeBulk(Decoder& decoder) {
  if (decoder.Has("tensor") || decoder.Has("prefetch") || decoder.Has("multicast::cluster") ||
      decoder.OperandCount() < 3)
    return false;
  const bool to_shared =
      decoder.in().modifiers.size() > 2 && decoder.in().modifiers[2].starts_with("shared");
  UseCopy(decoder, to_shared ? Space::kShared : Space::kGlobal,
          to_shared ? Space::kGlobal : Space::kShared);
  decoder.out.b = decoder.Source(2, Type::kU32);
  if (!to_shared) return true;
  if (decoder.OperandCount() < 4) return false;
  Insn complete;
  const Address barrier = decoder.AddressOf(decoder.Operand(3));
  complete.run = MBarrier;
  complete.a = barrier.base;
  complete.imm = barrier.offset;
  complete.flags = barrier.flags;
  complete.small = static_cast<uint16_t>(BarOp::kComplete);
  complete.list = static_cast<uint32_t>(Space::kShared);
  complete.b = decoder.out.b;
  complete.flags |= kAsync;
  complete.order = Order::kRelease;
  complete.scope = Scope::kCta;
  decoder.EmitAfter(complete);
  return true;
}

bool DecodeCp(Decoder& decoder) {
  Insn& out = decoder.out;
  if (!decoder.Has("async")) return false;
  for (const char* word : {"commit_group", "wait_group", "wait_all"}) {
    if (decoder.Has(word)) return UseGroup(decoder);
  }
  if (decoder.Has("mbarrier")) {
    // Without .noinc, the instruction adds one expected arrival and makes it at once.
    const BarOp op = decoder.Has("noinc") ? BarOp::kArrive : BarOp::kTouch;
    if (!UseBarrier(decoder, op, 0, 9, Type::kU32)) return false;
    out.flags |= kAsync;
    return true;
  }
  if (decoder.Has("bulk")) return DecodeBulk(decoder);
  const size_t count = decoder.OperandCount();
  if (count < 3 || decoder.Operand(2).kind != ptx::Operand::Kind::kInteger) return false;
  UseCopy(decoder, Space::kShared, Space::kGlobal);
  out.small = static_cast<uint16_t>(decoder.Operand(2).integer);
  if (out.small != 4 && out.small != 8 && out.small != 16) return false;
  const bool policy = decoder.Has("L2::cache_hint");
  if (count > 3 + (policy ? 1u : 0u)) {
    if (decoder.RegisterType(decoder.Operand(3), Type::kU32) == Type::kPred) {
      out.c = decoder.Source(3, Type::kPred);
    } else {
      out.b = decoder.Source(3, Type::kU32);
    }
  }
  return true;
}

}  // namespace

void AddCopyOps(OpTable& table) {
  table["cp"] = DecodeCp;
  table["mbarrier"] = DecodeMBarrier;
}

}  // namespace cupola::sim
