// Starts threads of Cupola's own in the program's process.
#pragma once

#include <cstddef>

namespace cupola::intercept {

/// Starts `run(argument)` on a detached thread with a stack of `stack_bytes`. All signals are blocked in it, so
/// that the program's threads get them. False: the system gives no thread. Any thread; allocates.
bool StartOwnThread(void* (*run)(void*), void* argument, size_t stack_bytes) noexcept;

}  // namespace cupola::intercept
