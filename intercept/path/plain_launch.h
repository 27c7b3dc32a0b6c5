// The first launch of a kernel in a process that takes part in preemption. Called by launch_path.cpp, which makes all
// other plain launches of kernels itself. Any thread.
#pragma once

#include <cuda.h>

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
struct ProgramCall;
}  // namespace cupola::intercept

namespace cupola::intercept {

/// Launches a kernel that the driver may not have loaded yet. Counts as a call that may wait: first waits
/// until no guarded launch of the context is outstanding and no task runs.
CUresult LaunchFirst(LaunchContext& context, const Launch& launch, const ProgramCall& call) noexcept;

}  // namespace cupola::intercept
