// Launches of a process that takes part which go out as the program made them: behind gates, with a marker
// where the program holds the stream, and in a scope where the kernel may be loaded. Any thread.
#pragma once

#include <cuda.h>

#include "intercept/streams.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct LaunchCall;
struct PreemptContext;

/// Makes the launch, a graph's too; returns what the driver said. May wait in our code.
CUresult LaunchPlain(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                     const LaunchCall& call) noexcept;

}  // namespace cupola::intercept::preempt
