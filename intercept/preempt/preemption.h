// This process's part in preemption: start, fork and exit. StartPreemption decides whether the
// process takes part (process/participation.h). entry/start.cpp calls these functions, on the thread
// that opens the driver, forks or exits; guarded_context.cpp calls RegisterPreemptionExit, on the thread that
// makes a context ready for guarded launches. docs/preemption.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// Decides whether the process takes part: reads the environment, looks for an arbiter's socket,
/// and sets everything up. Called when the driver has been opened, before any driver call.
void StartPreemption() noexcept;

/// In the child of a fork: forgets what the parent had without touching it; the child joins anew.
void ForgetPreemptionAfterFork() noexcept;

/// From exit(): waits for guarded launches, for at most 5 s, and leaves the boards. Once.
void EndPreemptionAtExit() noexcept;

/// Registers EndPreemptionAtExit with exit(), once. It must run before the driver's own exit
/// handlers, after which every driver call fails. exit() runs the handler first that was registered
/// last, so this is called when a context exists and the driver has registered its handlers.
void RegisterPreemptionExit() noexcept;

}  // namespace cupola::intercept::preempt
