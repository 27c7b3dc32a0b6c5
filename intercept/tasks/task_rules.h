// What is done about tasks before a call of the program goes to the driver: calls that give a
// stream work come after its tasks, calls that may wait for the device find none, and no
// MasterKernel.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Calls under way that wait for the device: while there are any, no launch becomes a task.
extern std::atomic<uint32_t> scopes;

/// Makes the table of rules; from now on such calls come here (preempt::watched). Once, before the
/// first task.
void WatchCalls() noexcept;

/// A launch is about to go to the driver.
void BeforePlainLaunch(CUstream stream, bool per_thread) noexcept;

/// A call (kCallNames[index]) of the class kMayWait, with its register arguments, the first at
/// `arguments[0]`, the next below it. True: CloseScope is to be called after it.
bool BeforeMayWait(size_t index, const uint64_t* arguments) noexcept;
void CloseScope() noexcept;

/// A call of the class kStreamOrdered, with the same.
void BeforeStreamOrdered(size_t index, const uint64_t* arguments) noexcept;

}  // namespace cupola::intercept::tasks
