// Launches of graphs, which come here from the launch path in a process that takes part in preemption.
#pragma once

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
struct ProgramCall;

/// Launches a graph: in pieces with a gate before each where others may hold the process and there are pieces
/// (graphs/pieces.h), else whole behind a gate. Where the driver has no room for all pieces the launch is deferred
/// (path/graph_feeder.h); where that is not possible it waits for room, in our code. Returns what the driver returned.
CUresult LaunchGraph(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                     const ProgramCall& call) noexcept;

}  // namespace cupola::intercept
