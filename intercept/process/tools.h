// Profilers and debuggers. Cupola stands aside for them and says so once, since its kernels and streams would disturb
// what they measure, or they would disturb Cupola. It recognises them in two ways: by environment variables at the
// start, and by the process's first call into CUPTI. Any thread.
#pragma once

#include <atomic>

#include "intercept/process/event.h"

namespace cupola::intercept {

/// Whether the environment names a profiler or debugger. If so, logs the variable.
bool ToolAtWork() noexcept;

/// A tool has begun to work within the process. What it measures should be the program's own work, so from now on
/// launches go out plain. Logs `why`, once.
void StandAside(const char* why) noexcept;
extern std::atomic<bool> stands_aside;
inline bool StandsAside() noexcept { return stands_aside.load(std::memory_order_relaxed); }
/// Announced by StandAside, once.
extern Event<> stood_aside;

/// The code at `caller` has asked for the driver's export tables (cuGetExportTable); calls StandAside if it is CUPTI's.
/// CUPTI asks when the first of its functions is called. That CUPTI is loaded means nothing: each program that imports
/// PyTorch has it.
void OnTablesAsked(const void* caller) noexcept;

/// Whether this process will be a client of MPS, as far as can be told before cuInit: whether the control daemon's pipe
/// is where the driver will look for it (MPS documentation, CUDA_MPS_PIPE_DIRECTORY).
bool MpsIsThere() noexcept;

}  // namespace cupola::intercept
