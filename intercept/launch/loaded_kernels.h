// Kernels that the driver has loaded. The first launch of a kernel may load it, which waits for the device (CUDA Driver
// API, "Lazy Loading"), so it counts as a call that may wait. Any thread; lock-free.
#pragma once

namespace cupola::intercept {

/// Whether `function` (CUfunction or CUkernel) is known to be loaded: MarkLoaded was called for it since the last
/// ForgetLoaded.
bool IsKnownLoaded(const void* function) noexcept;
void MarkLoaded(const void* function) noexcept;
/// Code was unloaded, so a handle may now mean another kernel: forgets all kernels, and raises the launch epoch.
void ForgetLoaded() noexcept;

}  // namespace cupola::intercept
