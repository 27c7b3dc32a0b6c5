// HeldFor: for whose sake the daemon may come to ask a process to yield in its own name. Policies
// decide it and the board passes it on.
#pragma once

#include <cstdint>

namespace cupola::sched {

/// `kEquals`: only for other processes of its priority, which gain little by stopping a short
/// launch.
enum class HeldFor : uint32_t { kNobody = 0, kAnyone = 1, kEquals = 2 };

}  // namespace cupola::sched
