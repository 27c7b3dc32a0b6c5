// Runs rare work that needs more stack than the program may have left: it may make its first CUDA call from
// a thread, or a fiber, with a few KiB. Any thread.
#pragma once

namespace cupola::intercept {

/// Calls `work(data)` on a stack of 1 MiB that is mapped for this call, behind a guard page; on the caller's
/// stack if that cannot be mapped. Not for the launch path: it makes several system calls. Keeps errno.
void RunOnOwnStack(void (*work)(void* data) noexcept, void* data) noexcept;

/// The same for a function object.
template <typename Work>
void RunOnOwnStack(Work& work) noexcept {
  RunOnOwnStack([](void* data) noexcept { (*static_cast<Work*>(data))(); }, &work);
}

}  // namespace cupola::intercept
