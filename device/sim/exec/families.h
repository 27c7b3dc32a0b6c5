// The instruction families. Each adds its opcodes to the table; see docs/simulated-device.md for
// how to add an instruction. Called once, at the first load of a module.
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
void AddBarrierOps(OpTable& table);      ///< bar, barrier, mbarrier
void AddWarpOps(OpTable& table);         ///< shfl, vote, match, redux, activemask, elect
void AddNarrowOps(OpTable& table);       ///< cvt to and from fp8 and tf32, cvt.pack
void AddStackOps(OpTable& table);        ///< alloca, stacksave, stackrestore
void AddWmmaOps(OpTable& table);         ///< wmma
void AddVideoOps(OpTable& table);        ///< vabsdiff4 and its kin
void AddCopyOps(OpTable& table);         ///< cp.async
void AddMatrixOps(OpTable& table);       ///< ldmatrix, mma

/// Rows and bits of the special register `name` ("%tid.x"); nullptr if it has none.
Handler SpecialRegister(std::string_view name, Type* type);

// Handlers that the decoder itself emits.
void RunUnsupported(Warp& warp, const Insn& in, uint32_t active);   ///< small: index of a message
void RunLocalAddress(Warp& warp, const Insn& in, uint32_t active);  ///< d = local frame + imm
void RunDynamicShared(Warp& warp, const Insn& in, uint32_t active);
void RunNotPredicate(Warp& warp, const Insn& in, uint32_t active);
void RunEndOfFunction(Warp& warp, const Insn& in, uint32_t active);  ///< control fell off the end

Builtin FindBuiltin(std::string_view name);  ///< nullptr if the device provides no such function

}  // namespace cupola::sim
