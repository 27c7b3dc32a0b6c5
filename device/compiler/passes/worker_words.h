// What the words of the worker's PTX stand for: offsets and constants of preempt_control.h, so that
// its text cannot part from the layouts. Internal to the folder; pure.
#pragma once

#include "device/compiler/passes/snippet.h"

namespace cupola::passes {

Words LayoutWords();

}  // namespace cupola::passes
