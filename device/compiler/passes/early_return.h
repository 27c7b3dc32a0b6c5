// Pass: threads that return from the body of a kernel's block go on living in its worker.
//
// A thread that exits is no longer waited for at barriers; one that has only returned is. So where some threads may
// return before others come to a barrier (or come to fewer of them), the returned ones go on taking part: each phase is
//     barrier.red.or.pred alive, B, came from a barrier of the body
// and where nobody did, the block has ended for all together. A warp whose lanes are all at a barrier of the body waits
// there, at the aligned kind: of unaligned ones ptxas makes copies that gather lanes, at which an H100 waits for ever.
// Parts of warps meet at one place of the worker, $cupola_meet, whichever barrier they come to, and go back to where
// they came from, those that have returned to $cupola_meet again.
//
// One place, since a part of a warp that waits at another barrier instruction than the rest is told no result: an
// H100 gathers the lanes and has one of the instructions executed for all (WARPSYNC.COLLECTIVE), which writes the
// registers that ptxas chose for that one. With one place there is one instruction, and one set of registers.
//
// With reductions in the body the meeting is two phases of barrier.red.popc: who is alive, then the values, to which
// returned threads add nothing. Since uncounted barriers wait for all threads of a block, no two of them can be waited
// at at a time, and all may share one number. Pure; any thread.
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

/// Effect: whole warps take part at barrier number `barrier` in place of the uncounted ones of the body; parts of warps
/// branch to $cupola_meet, from where they come back to $cupola_resume_1, _2... Counted ones stay, and scopes in which
/// there are uncounted ones dissolve. Returns how many there were. Precondition: `meeting` is not kBarrier.
uint32_t RouteBarriers(ptx::Block& body, Meeting meeting, uint32_t barrier);

}  // namespace cupola::passes
