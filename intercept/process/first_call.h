// What begins with the process's first CUDA call, and anew with the first of a forked child. The layers below know
// only that it is to begin; entry/start.cpp says what that is.
#pragma once

#include <atomic>

namespace cupola::intercept {

/// Set by entry/start.cpp before any call can come: reads the environment and starts what that asks for, once.
/// Thread-safe. Null in tests of single parts.
extern std::atomic<void (*)() noexcept> start_process;

/// The driver has been opened, or a hook finds that nothing has been started yet.
inline void StartProcess() noexcept {
  if (const auto start = start_process.load(std::memory_order_relaxed)) start();
}

}  // namespace cupola::intercept
