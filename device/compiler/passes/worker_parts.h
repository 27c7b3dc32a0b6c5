// Parts of a worker's PTX: how a worker claims blocks, looks for a stop, hands ranges back, watches
// and leaves. A part is text with words in angle brackets, and a part can itself be such a word.
// worker_code.cpp has the loop into which the parts go, and the layout of cupola_worker. Internal
// to the folder; pure.
#pragma once

#include <string>
#include <string_view>

#include "device/compiler/passes/snippet.h"

namespace cupola::passes {

/// The parts, and the words of LayoutWords(). The loop must define these labels itself:
///   $cupola_go_on where <decide> goes on if nobody asks the worker to leave: behind <decide>
///   $cupola_publish where <claim> goes with the indices of %cupola_current in x, y, z
///   $cupola_stop_here where a worker goes that is to leave
/// <claim>, <poll>, <yield> and <leave> begin with the labels $cupola_claim, $cupola_look,
/// $cupola_yield and $cupola_leave.
Words WorkerParts();

/// Replaces the words of a part by their text, in which further words may stand.
std::string Fill(std::string_view part, const Words& words);

}  // namespace cupola::passes
