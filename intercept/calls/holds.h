// Records which stream-ordered calls put a stream behind a hold of the program (preempt/host_holds.h), and which events
// and memory carry a hold on, as the column HOLDS of calls.def says. For graphs, which are launches, their hooks do
// so. dispatch.cpp calls this, in the program's threads and inside a HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::intercept {

/// Called before stream-ordered call `call` (kCallNames) in a process that takes part in preemption, with the call's
/// arguments as entry.S has them. The caller gives the result to EndHold after the call; 0: the call holds nothing.
/// Does not wait.
uint64_t BeginHoldOf(size_t call, const uint64_t* arguments) noexcept;

}  // namespace cupola::intercept
