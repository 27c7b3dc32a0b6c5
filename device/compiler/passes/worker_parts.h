// Parts that the PTX of all workers have: how blocks are claimed, a stop is looked for, ranges are
// handed back, a worker leaves. Text with words in angle brackets, a part being a word itself.
// Internal to the folder; pure.
#pragma once

#include <string>
#include <string_view>

#include "device/compiler/passes/snippet.h"

namespace cupola::passes {

/// The parts, and the words of LayoutWords(). What a worker must say itself:
///   <leaders_only>    at the beginning of <leave>: code after which only thread 0 goes on, behind
///                     a barrier of all threads and with what <addresses> sets
///   <at_run>, <at_told>   offsets in cupola_worker: blocks that the worker has run; 1 = it leaves
///                     because of a stop of some SMs only (0 before)
///   $cupola_go_on     where <decide> goes on where nobody asks: after <decide>
///   $cupola_publish   where <claim> goes with the place of %cupola_current in x, y, z
///   $cupola_stop_here where a worker goes that is to leave
///   $cupola_claim, $cupola_look, $cupola_yield, $cupola_leave   begin <claim>, <poll>, <yield>,
///   <leave>
Words WorkerParts();

/// The text of a part with its words; parts may hold parts.
std::string Fill(std::string_view part, const Words& words);

}  // namespace cupola::passes
