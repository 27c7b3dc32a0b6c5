// The start of Cupola in a process, at its first CUDA call, and again at the first CUDA call of a forked child. Lower
// layers call StartProcess; entry/start.cpp decides what is started. Any thread.
#pragma once

#include <atomic>

namespace cupola::intercept {

/// The function that reads the environment and starts what it asks for, once; any thread may call it. entry/start.cpp
/// sets it before any call can come. Null in tests of single parts.
extern std::atomic<void (*)() noexcept> start_process;

/// Starts Cupola in this process, once. Called when the driver has been opened, and by a hook that finds that nothing
/// has been started yet.
inline void StartProcess() noexcept {
  if (const auto start = start_process.load(std::memory_order_relaxed)) start();
}

}  // namespace cupola::intercept
