// The two special plain launches of a process that takes part in preemption: the launch of a graph, and the first
// launch of a kernel. Called by launch_path.cpp, which makes all other plain launches itself. Any thread.
#pragma once

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
struct ProgramCall;
}  // namespace cupola::intercept

namespace cupola::intercept {

/// Launches a graph. Returns what the driver returned. May wait in our code for room in the stream, and for
/// guarded launches behind which the stream comes (RecordJoin).
CUresult LaunchGraph(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                     const ProgramCall& call) noexcept;

/// Launches a kernel that the driver may not have loaded yet. Counts as a call that may wait: first waits
/// until no guarded launch of the context is outstanding and no task runs.
CUresult LaunchFirst(LaunchContext& context, const Launch& launch, const ProgramCall& call) noexcept;

}  // namespace cupola::intercept
