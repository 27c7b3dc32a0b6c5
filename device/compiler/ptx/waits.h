// Whether a function may wait, in a loop, for what another block or the host writes. Pure.
#pragma once

#include <string>

#include "device/compiler/ptx/call_effects.h"
#include "device/compiler/ptx/flow_graph.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// Why the function may wait, "" where it does not: "a loop ends by what ld.global.cg reads again".
/// What it calls counts where the call is in a loop; loops inside of what it calls are for a
/// question of their own. In doubt it waits. It does where
/// - a loop, or what a loop calls, reads memory of others by volatile, acquire, relaxed, or by an
///   atomic whose result is used;
/// - some way round a loop may leave all that decides the loop's end as it was, but for what is
///   read again from an address that is the same each time: a load, a call that loads. A counter,
///   the next element of a list, a bound that is halved are progress; a value that may also be set
///   back, or comes round again (a remainder, a mask), is none;
/// - a loop may end by such a value alone, even where a counter ends it too;
/// - the same holds for a function that calls itself, or that other functions which it calls may
///   call and that reads memory of others.
/// Shared memory is the block's own: what is read there counts as what the loop itself puts there.
std::string FindWait(const Function& function, const FlowGraph& graph, CallEffects& calls);

}  // namespace cupola::ptx
