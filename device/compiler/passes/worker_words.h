// The words that a worker's PTX uses for offsets and constants of preempt_control.h, so that the
// text always agrees with the layouts. Internal to the folder; pure.
#pragma once

#include "device/compiler/passes/snippet.h"

namespace cupola::passes {

Words LayoutWords();

}  // namespace cupola::passes
