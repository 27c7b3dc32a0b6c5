// bra, brx.idx, call, ret, exit, trap [PTX ISA 9.7.12, 9.7.19]. When a handler runs, the warp's
// group_pc is already that of the next instruction. Where only some lanes of the group take another
// way, the handler parks the group: all its lanes get that pc, then the handler changes the pc of
// those lanes, and StepWarp chooses a group anew.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

using Kind = ptx::Operand::Kind;

void Branch(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t target = static_cast<uint32_t>(in.imm);
  const bool backward = target < warp.group_pc;
  if (active == warp.group) {
    warp.group_pc = target;
    if (backward && warp.split) {
      warp.CountLoop();
      // In a favoured group's turn, waiting lanes may have a lower pc. A new choice lets this group
      // join them.
      if (!warp.choose && warp.favoured != 0) warp.Park();
    }
    return;
  }
  warp.Park();
  ForLanes(active, [&](uint32_t lane) { warp.pc[lane] = target; });
  if (backward && warp.patience != 0) --warp.patience;
}

bool DecodeBra(Decoder& decoder) {
  if (decoder.OperandCount() != 1) return false;
  decoder.out.run = Branch;
  return decoder.UseLabel(decoder.Operand(0).text);
}

void BranchIndexed(Warp& warp, const Insn& in, uint32_t active) {
  const uint32_t* index = warp.Row<uint32_t>(in.a);
  const uint32_t* targets = &warp.block->program->lists[in.list];
  const uint32_t count = static_cast<uint32_t>(in.imm);
  warp.Park();
  ForLanes(active, [&](uint32_t lane) {
    if (index[lane] >= count) {
      warp.Raise(FaultKind::kIllegalInstruction, lane,
                 fmt::format("branch index {} of {} targets", index[lane], count));
      return;
    }
    warp.pc[lane] = targets[index[lane]];
  });
  if (warp.patience != 0) --warp.patience;
}

bool DecodeBrx(Decoder& decoder) {
  if (decoder.OperandCount() != 2 || !decoder.Has("idx")) return false;
  uint32_t count = 0;
  if (!decoder.UseTargets(decoder.Operand(1).text, &decoder.out.list, &count)) return false;
  decoder.out.a = decoder.Source(0, Type::kU32);
  decoder.out.imm = count;
  decoder.out.run = BranchIndexed;
  return true;
}

// ---- calls ----

// Copies an argument or a result of one lane from its slot on one side of a call to the slot on the
// other side. A side's frame is a byte offset in warp.registers; its local is one in the lane's
// local memory. A predicate is one bit of a word that all lanes share.
void CopyArgument(Warp& warp, uint32_t lane, const ArgSlot& from, uint32_t from_frame,
                  uint32_t from_local, const ArgSlot& to, uint32_t to_frame, uint32_t to_local) {
  uint8_t* lane_memory = warp.local_memory.data() + size_t{lane} * warp.local_stride;
  const uint32_t bytes = std::min(from.bytes, to.bytes);
  const bool predicate = !from.in_memory && from.bytes == 0;
  uint8_t* source = from.in_memory ? lane_memory + from_local + from.at : nullptr;
  if (source == nullptr) {
    uint8_t* row = (from.at & kConstBit) != 0 ? warp.bases[1] + (from.at & ~kConstBit)
                                              : warp.registers + from_frame + from.at;
    source = predicate ? row : row + size_t{lane} * from.bytes;
  }
  uint8_t* target = to.in_memory ? lane_memory + to_local + to.at
                                 : warp.registers + to_frame + to.at + size_t{lane} * to.bytes;
  if (!to.in_memory && warp.observer != nullptr) warp.NoteWritten(to_frame + to.at, std::max(to.bytes * kLanes, 4u));
  if (predicate) {
    uint32_t bits, own;
    std::memcpy(&bits, source, 4);
    target = warp.registers + to_frame + to.at;
    std::memcpy(&own, target, 4);
    own = (own & ~(1u << lane)) | (bits & (1u << lane));
    std::memcpy(target, &own, 4);
    return;
  }
  std::memcpy(target, source, bytes);
}

// Makes the lanes of `active`, which are in the group, enter a function.
void CallFunction(Warp& warp, const Insn& in, uint32_t active, uint32_t callee_index) {
  const Program& program = *warp.block->program;
  const CallSite& site = program.call_sites[in.list];
  const FunctionCode& callee = program.functions[callee_index];
  const uint32_t first = static_cast<uint32_t>(std::countr_zero(active));
  if (callee.builtin != nullptr) {
    callee.builtin(warp, site, active);
    return;
  }
  if (!callee.has_body) {
    warp.Raise(FaultKind::kUnsupported, first,
               fmt::format("call of unknown function {}", callee.name));
    return;
  }
  if (callee.params.size() != site.args.size() || callee.returns.size() != site.returns.size()) {
    warp.Raise(FaultKind::kIllegalInstruction, first,
               fmt::format("call of {} with {} arguments", callee.name, site.args.size()));
    return;
  }
  const FunctionCode& caller = program.functions[warp.function[first]];
  const uint32_t return_pc = warp.group_pc;
  const uint32_t old_frame = warp.group_frame, old_local = warp.group_local;
  const uint32_t new_frame = warp.FrameOf(old_frame, callee_index, callee.frame_bytes);
  const uint32_t new_local = old_local + caller.local_bytes;
  const bool whole = active == warp.group;
  warp.EnterFrame(new_frame, callee.frame_bytes);
  if (warp.block->fault) return;
  if (!warp.ReserveLocal(new_local + callee.local_bytes)) {
    warp.Raise(FaultKind::kIllegalAddress, first, "the local stack of a thread is full");
    return;
  }
  ForLanes(active, [&](uint32_t lane) {
    for (size_t i = 0; i < site.args.size(); ++i) {
      CopyArgument(warp, lane, site.args[i], old_frame, old_local, callee.params[i], new_frame,
                   new_local);
    }
    warp.calls[lane].push_back(
        {return_pc, old_frame, old_local, in.list, warp.function[lane], warp.alloca_top[lane]});
    warp.function[lane] = callee_index;
  });
  if (whole) {
    warp.group_local = new_local;
    warp.group_pc = callee.entry_pc;
    warp.merge_pc = kFullMask;  // no other lane is in this frame
    return;
  }
  // EnterFrame above served only to make room for the callee's registers.
  warp.EnterFrame(old_frame, 0);
  warp.Park();
  ForLanes(active, [&](uint32_t lane) {
    warp.pc[lane] = callee.entry_pc;
    warp.frame[lane] = new_frame;
    warp.local[lane] = new_local;
  });
}

void CallDirect(Warp& warp, const Insn& in, uint32_t active) {
  const CallSite& site = warp.block->program->call_sites[in.list];
  // A call counts as a round of a loop. It does not end the turn itself: a backward branch does.
  if (warp.split && warp.patience > 1) --warp.patience;
  CallFunction(warp, in, active, static_cast<uint32_t>(site.function));
}

void CallIndirect(Warp& warp, const Insn& in, uint32_t active) {
  const Program& program = *warp.block->program;
  const CallSite& site = program.call_sites[in.list];
  const uint64_t* target = warp.Row<uint64_t>(site.target);
  const uint32_t first = static_cast<uint32_t>(std::countr_zero(active));
  uint32_t same = 0;
  ForLanes(active, [&](uint32_t lane) {
    if (target[lane] == target[first]) same |= 1u << lane;
  });
  const uint64_t index = (target[first] - kCodeBase) / 16 - 1;  // see kCodeBase
  if (target[first] <= kCodeBase || index >= program.functions.size()) {
    warp.Raise(FaultKind::kIllegalInstruction, first,
               fmt::format("call of address {:#x}, which is no function", target[first]));
    return;
  }
  if (same != active) {
    // Lanes with other targets stay at this instruction and make their own call later.
    const uint32_t rest = active & ~same;
    const uint32_t others = warp.group & ~active;
    const uint32_t here = warp.group_pc - 1;
    const uint32_t next = warp.group_pc;
    warp.Park();
    ForLanes(rest, [&](uint32_t lane) { warp.pc[lane] = here; });
    ForLanes(others, [&](uint32_t lane) { warp.pc[lane] = next; });
    warp.group = same;
    warp.group_pc = next;
    warp.split = true;
  }
  CallFunction(warp, in, same, static_cast<uint32_t>(index));
  if (same != active) warp.Park();
}

/// Appends the slot of an actual argument: a .param variable, a register or a literal.
bool UseArgument(Decoder& decoder, const ptx::Operand& operand, std::vector<ArgSlot>* slots) {
  const Symbol* symbol = operand.kind == Kind::kName ? decoder.Find(operand.text) : nullptr;
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kFunctionParam) {
    slots->push_back({true, static_cast<uint32_t>(symbol->at), symbol->bytes});
    return true;
  }
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kRegister) {
    slots->push_back({false, static_cast<uint32_t>(symbol->at),
                      symbol->type == Type::kPred ? 0 : CellBytes(symbol->type)});
    return true;
  }
  if (operand.kind == Kind::kInteger || operand.kind == Kind::kFloat) {
    const Type type = operand.kind == Kind::kFloat && operand.width == 32 ? Type::kF32 : Type::kB64;
    slots->push_back({false, decoder.Source(operand, type), CellBytes(type)});
    return true;
  }
  return false;
}

bool UseArguments(Decoder& decoder, const ptx::Operand& operand, std::vector<ArgSlot>* slots) {
  if (operand.kind != Kind::kList) return UseArgument(decoder, operand, slots);
  for (const ptx::Operand& child : operand.children) {
    if (!UseArgument(decoder, child, slots)) return false;
  }
  return true;
}

/// Decodes "call (returns), function, (arguments), prototype", of which only the function is
/// required.
bool DecodeCall(Decoder& decoder) {
  CallSite site;
  size_t at = 0;
  const size_t count = decoder.OperandCount();
  if (count == 0) return false;
  if (decoder.Operand(0).kind == Kind::kList) {
    if (!UseArguments(decoder, decoder.Operand(at++), &site.returns)) return false;
  }
  if (at >= count) return false;
  const ptx::Operand& callee = decoder.Operand(at++);
  site.function = decoder.FindFunction(callee.text);
  if (site.function < 0) site.target = decoder.Source(callee, Type::kU64);
  if (at < count && decoder.Operand(at).kind == Kind::kList) {
    if (!UseArguments(decoder, decoder.Operand(at), &site.args)) return false;
  }
  decoder.function().calls = true;
  decoder.out.run = site.function < 0 ? CallIndirect : CallDirect;
  decoder.out.list = decoder.AddCallSite(std::move(site));
  return true;
}

// Each lane returns to its own caller. A lane without a caller is in the kernel itself, and ends.
void Return(Warp& warp, const Insn&, uint32_t active) {
  const Program& program = *warp.block->program;
  warp.Park();
  uint32_t leaving = 0;
  ForLanes(active, [&](uint32_t lane) {
    if (warp.calls[lane].empty()) {
      leaving |= 1u << lane;
      return;
    }
    const CallFrame frame = warp.calls[lane].back();
    warp.calls[lane].pop_back();
    const CallSite& site = program.call_sites[frame.site];
    const FunctionCode& callee = program.functions[warp.function[lane]];
    for (size_t i = 0; i < site.returns.size(); ++i) {
      CopyArgument(warp, lane, callee.returns[i], warp.frame[lane], warp.local[lane],
                   site.returns[i], frame.frame, frame.local);
    }
    warp.pc[lane] = frame.pc;
    warp.frame[lane] = frame.frame;
    warp.local[lane] = frame.local;
    warp.function[lane] = frame.function;
    warp.alloca_top[lane] = frame.alloca_top;
  });
  if (leaving != 0) warp.Exit(leaving);
}

void ExitLanes(Warp& warp, const Insn&, uint32_t active) {
  warp.Park();
  warp.Exit(active);
}

void Trap(Warp& warp, const Insn&, uint32_t active) {
  warp.Raise(FaultKind::kTrap, static_cast<uint32_t>(std::countr_zero(active)), "trap");
}

/// brkpt: as there is no debugger, it ends the kernel.
void Breakpoint(Warp& warp, const Insn&, uint32_t active) {
  warp.Raise(FaultKind::kTrap, static_cast<uint32_t>(std::countr_zero(active)), "breakpoint");
}

template <Handler kHandler>
bool DecodePlain(Decoder& decoder) {
  decoder.out.run = kHandler;
  return true;
}

}  // namespace

void RunUnsupported(Warp& warp, const Insn&, uint32_t active) {
  warp.Raise(FaultKind::kUnsupported, static_cast<uint32_t>(std::countr_zero(active)),
             "the simulated device lacks an instruction");
}

void RunEndOfFunction(Warp& warp, const Insn& in, uint32_t active) { Return(warp, in, active); }

void AddFlowOps(OpTable& table) {
  table["bra"] = DecodeBra;
  table["brx"] = DecodeBrx;
  table["call"] = DecodeCall;
  table["ret"] = DecodePlain<Return>;
  table["exit"] = DecodePlain<ExitLanes>;
  table["trap"] = DecodePlain<Trap>;
  table["brkpt"] = DecodePlain<Breakpoint>;
}

}  // namespace cupola::sim
