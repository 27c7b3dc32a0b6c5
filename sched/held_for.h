// HeldFor: for whose sake the daemon may come to ask a process to yield in its own name. The
// daemon's policy decides it (Policy::HoldsFor), the board passes it on (BoardSlot::may_be_held), and
// the process itself decides by it whether its launches need gates or are to be stoppable. A plain
// value.
#pragma once

#include <cstdint>

namespace cupola::sched {

/// `kEquals`: only for other processes of its priority, which gain little by stopping a short
/// launch.
enum class HeldFor : uint32_t { kNobody = 0, kAnyone = 1, kEquals = 2 };

}  // namespace cupola::sched
