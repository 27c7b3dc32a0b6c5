// Pass: threads that return from the body of a kernel's block go on living in its worker.
//
// A thread that exits is no longer waited for at barriers; one that has only returned is. So where
// some threads may return before others come to a barrier (or come to fewer of them), the returned
// ones go on taking part: every uncounted barrier of the body becomes
//     barrier.red.or.pred -, B, true        and a returned thread repeats
//     barrier.red.or.pred alive, B, false   while `alive`
// All threads of the block arrive at each phase, from the body or from the drain loop; a phase that
// nobody arrived at from the body ends the block for all together. With reductions in the body each
// barrier is two phases of barrier.red.popc: who is alive, then the values, to which returned
// threads add nothing. Since uncounted barriers wait for all threads of a block, no two of them can
// be waited at at a time, and all may share one number. Pure; any thread.
#pragma once

#include <cstdint>

#include "device/compiler/passes/worker_code.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Effect: ret and exit become branches to $cupola_tail. Precondition: an entry's body. Returns
/// whether anything changed.
bool RouteReturns(ptx::Block& body);

/// A barrier of all threads of a block: bar.sync a, barrier.red.op d, a, p and the like.
bool IsUncountedBarrier(const ptx::Instruction& instruction);
/// A barrier of a counted number of threads, or an arrival at one.
bool IsCountedBarrier(const ptx::Instruction& instruction);
/// The operand that is the barrier's number. Precondition: one of the two above.
const ptx::Operand& BarrierNumber(const ptx::Instruction& instruction);

/// Effect: the uncounted barriers of the body become branches to $cupola_meet, behind which their
/// threads come back to $cupola_resume_1, _2...; counted ones stay. Returns how many there were.
/// Preconditions: `meeting` is not kBarrier, no barrier is in a scope of its own.
uint32_t RouteBarriers(ptx::Block& body, Meeting meeting);

}  // namespace cupola::passes
