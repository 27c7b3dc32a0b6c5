// The instruction families. Each function adds its family's opcodes to the table; Opcodes() calls
// all of them once, at the first load of a module. docs/simulated-interpreter.md says how to add an
// instruction.
#pragma once

#include "device/sim/exec/decode.h"

namespace cupola::sim {

void AddMoveOps(OpTable& table);         ///< mov, cvta, isspacep, mapa, special registers
void AddMemoryOps(OpTable& table);       ///< ld, st, ldu, prefetch...
void AddFlowOps(OpTable& table);         ///< bra, brx, call, ret, exit, trap
void AddIntegerOps(OpTable& table);      ///< add, sub, mul, mad, min, max...
void AddBitOps(OpTable& table);          ///< and, shl, lop3, bfe, prmt...
void AddFloatOps(OpTable& table);        ///< f32 and f64
void AddApproximateOps(OpTable& table);  ///< ex2, sin, rcp.approx...
void AddHalfOps(OpTable& table);         ///< f16, bf16 and their pairs
void AddCompareOps(OpTable& table);      ///< setp, set, selp, slct, testp
void AddConvertOps(OpTable& table);      ///< cvt
void AddAtomicOps(OpTable& table);       ///< atom, red, membar, fence
void AddWideAtomicOps(OpTable& table);   ///< atom and red of vectors and of 128 bits
void AddBarrierOps(OpTable& table);      ///< bar, barrier, nanosleep
void AddWarpOps(OpTable& table);         ///< shfl, vote, match, redux, activemask, elect
void AddNarrowOps(OpTable& table);       ///< cvt to and from fp8 and tf32, cvt.pack
void AddStackOps(OpTable& table);        ///< alloca, stacksave, stackrestore
void AddWmmaOps(OpTable& table);         ///< wmma
void AddVideoOps(OpTable& table);        ///< vabsdiff4 and its relatives
void AddCopyOps(OpTable& table);         ///< cp.async, mbarrier
void AddMatrixOps(OpTable& table);       ///< ldmatrix, mma

/// The handler that reads the special register `name` ("%tid.x"), and its type; nullptr if there is
/// no such register.
Handler SpecialRegister(std::string_view name, Type* type);

// Handlers of the instructions that the decoder itself emits.
void RunUnsupported(Warp& warp, const Insn& in, uint32_t active);    ///< raises kUnsupported
void RunLocalAddress(Warp& warp, const Insn& in, uint32_t active);   ///< d = local frame + imm
void RunDynamicShared(Warp& warp, const Insn& in, uint32_t active);  ///< d = dynamic shared + imm
void RunNotPredicate(Warp& warp, const Insn& in, uint32_t active);   ///< d = not a
void RunEndOfFunction(Warp& warp, const Insn& in, uint32_t active);  ///< control reached the end

Builtin FindBuiltin(std::string_view name);  ///< nullptr if the device provides no such function

}  // namespace cupola::sim
