// Names of the kernels that were launched, for the board: a launch leaves its handle
// (DemandState::kernel), whoever puts the name on the board finds it here. A handle may be dead by
// then, so the driver is asked at a kernel's first launch alone. Any thread.
#pragma once

namespace cupola::intercept::preempt {

/// Stands for a graph, whose kernels are not told apart.
inline constexpr char kGraphLaunch = 0;

/// `function` (CUfunction or CUkernel) is being launched plain, for the first time as far as is
/// known: asks the driver for its name, and keeps that for good. Takes a mutex.
void NoteName(const void* function) noexcept;

/// As it is in the image (mangled); null: not known. Lives for good. Lock-free, asks nobody.
const char* LaunchedName(const void* function) noexcept;

void ForgetNamesAfterFork() noexcept;

}  // namespace cupola::intercept::preempt
