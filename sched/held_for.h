// For whose sake the arbiter may come to hold a process: what policies say and the board passes on.
#pragma once

#include <cstdint>

namespace cupola::sched {

/// `kEquals`: only for others of its priority, which gain little by stopping what is short.
enum class HeldFor : uint32_t { kNobody = 0, kAnyone = 1, kEquals = 2 };

}  // namespace cupola::sched
