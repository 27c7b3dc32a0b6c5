// Decides whether a function may wait, in a loop, for what another block or the host writes. Pure.
#pragma once

#include <string>

#include "device/compiler/ptx/call_effects.h"
#include "device/compiler/ptx/flow_graph.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Why the function may wait, such as "a loop ends by what ld.global.cg reads each time"; "": it
/// does not. A function that it calls counts where the call is in a loop; loops inside the called
/// function are left to a question about that function. In doubt the answer is that it waits. It
/// waits where
/// - a loop, or a function that a loop calls, reads memory of others by volatile, acquire, relaxed,
///   or by an atomic whose result is used;
/// - some way round a loop may leave all that decides the loop's end as it was, except for what is
///   read again from an address that is the same each time: by a load, or by a call that loads. A
///   counter, the next element of a list and a bound that is halved are progress; a value that may
///   also be set back, or that comes round again (a remainder, a mask), is none;
/// - a loop may end by such a read value alone, even if a counter ends it too;
/// - the same holds for the calls of a function that calls itself, which count as a loop; a function
///   that may call itself by way of other functions waits if it reads memory of others.
/// Shared memory is the block's own: a value read there counts as one that the loop itself put
/// there.
std::string FindWait(const Function& function, const FlowGraph& graph, CallEffects& calls);

}  // namespace cupola::ptx
