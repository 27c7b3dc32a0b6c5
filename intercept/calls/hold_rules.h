// Which stream-ordered calls put a stream behind what the program holds (host_holds.h), and which events
// and freed memory carry that on. Beside graphs, which are launches. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::intercept::preempt {

/// Before call `call` (kCallNames) of a process that takes part, with its arguments as entry.S has them.
/// What is returned goes to EndHold behind the call.
uint64_t BeforeStreamOrdered(size_t call, const uint64_t* arguments) noexcept;

/// Makes the table of rules; called once.
void StartHoldRules() noexcept;

}  // namespace cupola::intercept::preempt
