// Names of the kernels that were launched, for the board. A launch leaves its handle
// (DemandState::kernel); the code that puts the name on the board looks it up here. The handle may
// be dead by then, so the driver is asked for the name only at the kernel's first launch. Any
// thread.
#pragma once

namespace cupola::intercept {

/// Its address stands for a graph; the kernels of graphs are not told apart.
inline constexpr char kGraphLaunch = 0;

/// Asks the driver for the name of `function` (CUfunction or CUkernel) and keeps it for good.
/// Called when it is launched plain, for the first time as far as is known. Takes a mutex.
void RecordKernelName(const void* function) noexcept;

/// The name of `function` as it is in the image (mangled); null: not known. The text is never
/// freed, except that a variant's name lives as long as its image (images/images.h). Lock-free;
/// does not ask the driver.
const char* LaunchedName(const void* function) noexcept;

void ForgetNamesAfterFork() noexcept;

}  // namespace cupola::intercept
