// Pass: a thread that returns from a block of the kernel's body does not exit but goes on living in the worker.
//
// Barriers no longer wait for a thread that has exited, but they do for one that has only returned to the worker. So
// where some threads may return before others come to a barrier (or come to fewer barriers), the returned ones keep
// taking part in the barriers. Each phase is
//     barrier.red.or.pred alive, B, came from a barrier of the body
// and where no thread came from a barrier of the body, the block has ended for all threads together. A warp whose lanes
// are all at a barrier of the body waits right there, at the aligned kind of barrier: of unaligned barriers ptxas makes
// copies that gather lanes, at which an H100 waits for ever. Parts of warps meet at one place of the worker,
// $cupola_meet, whichever barrier they come to. From there they go back to where they came from; threads that have
// returned go back to $cupola_meet.
//
// They need one place, since a part of a warp that waits at another barrier instruction than the rest is told no
// result: an H100 gathers the lanes and has one of the instructions executed for all (WARPSYNC.COLLECTIVE), which
// writes the registers that ptxas chose for that instruction. With one place there is one instruction, and one set of
// registers.
//
// With reductions in the body, the meeting is two phases of barrier.red.popc: first who is alive, then the values, to
// which returned threads add nothing. Uncounted barriers wait for all threads of a block, so threads cannot wait at two
// of them at a time, and all may share one number. Pure; any thread.
#pragma once

#include <cstdint>

#include "device/compiler/passes/worker_code.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Effect: ret and exit become branches to $cupola_tail. Precondition: `body` is an entry's body. Returns whether
/// anything changed.
bool RouteReturns(ptx::Block& body);

/// Whether it is a barrier of all threads of a block: bar.sync a, barrier.red.op d, a, p and the like.
bool IsUncountedBarrier(const ptx::Instruction& instruction);
/// Whether it is a barrier of a counted number of threads, or an arrival at one.
bool IsCountedBarrier(const ptx::Instruction& instruction);
/// The operand that is the barrier's number. Precondition: one of the two functions above is true.
const ptx::Operand& BarrierNumber(const ptx::Instruction& instruction);

/// Effect: at the place of each uncounted barrier of the body, whole warps wait at the barrier number `barrier`; parts
/// of warps branch to $cupola_meet, from where they come back to $cupola_resume_1, _2... Counted barriers stay. Scopes
/// that hold uncounted ones dissolve. Returns how many uncounted ones there were. Precondition: `meeting` is not
/// kBarrier.
uint32_t RouteBarriers(ptx::Block& body, Meeting meeting, uint32_t barrier);

}  // namespace cupola::passes
