// A thread of Cupola's own in somebody else's program.
#pragma once

#include <cstddef>

namespace cupola::intercept {

/// Starts `run(argument)` on a detached thread with a stack of so many bytes, in which all signals are blocked:
/// they stay with the program's threads. False: the system has none. Any thread; allocates.
bool StartOwnThread(void* (*run)(void*), void* argument, size_t stack_bytes) noexcept;

}  // namespace cupola::intercept
