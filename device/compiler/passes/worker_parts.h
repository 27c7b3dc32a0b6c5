// Parts of a worker's PTX: how blocks are claimed, a stop is looked for, ranges are handed back, a
// worker watches and leaves. Text with words in angle brackets, a part being a word itself;
// worker_code.cpp has the loop that they go into, and the layout of cupola_worker.
// Internal to the folder; pure.
#pragma once

#include <string>
#include <string_view>

#include "device/compiler/passes/snippet.h"

namespace cupola::passes {

/// The parts, and the words of LayoutWords(). What the loop must say itself:
///   $cupola_go_on     where <decide> goes on where nobody asks: after <decide>
///   $cupola_publish   where <claim> goes with the place of %cupola_current in x, y, z
///   $cupola_stop_here where a worker goes that is to leave
///   $cupola_claim, $cupola_look, $cupola_yield, $cupola_leave   begin <claim>, <poll>, <yield>,
///   <leave>
Words WorkerParts();

/// The text of a part with its words; parts may hold parts.
std::string Fill(std::string_view part, const Words& words);

}  // namespace cupola::passes
