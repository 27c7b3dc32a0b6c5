// Launches of a process that takes part which go out as the program made them, but for the usual one
// (guarded_launch.cpp): graphs, and the first launch of a kernel. Any thread.
#pragma once

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct LaunchCall;
struct PreemptContext;

/// Launches a graph; returns what the driver said. May wait in our code for room, and for guarded launches
/// that the stream comes behind.
CUresult LaunchGraph(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                     const LaunchCall& call) noexcept;

/// The same of a kernel that may not be loaded yet: counts as a call that may wait.
CUresult LaunchFirst(PreemptContext& context, const LaunchFacts& facts, const LaunchCall& call) noexcept;

}  // namespace cupola::intercept::preempt
