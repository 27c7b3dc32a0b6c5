// Gates and launch priorities: what can be done for launches that are not made preemptible. A gate
// is a stream wait for the board's gate word, put into a stream every few launches: while it is
// closed, the stream's next launches wait without blocking the host. Where processes share a
// context (MPS), a process that may ask others launches with the highest priority besides. Any
// thread.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

class GpuBoard;
struct LaunchCall;
struct PreemptContext;

/// Whether a gate may come to hold what is behind it: gates are put, and others may ask this
/// process to yield.
bool GatesMayHold(const GpuBoard& gpu) noexcept;
bool GatesMayHold(const PreemptContext& context) noexcept;

/// What launches take that may lie between two gates, as far as is known; 0 = it is not.
uint64_t BetweenGatesNs(const GpuBoard& gpu) noexcept;

enum class GateWhen : uint8_t {
  kDue,  ///< every CUPOLA_GATE_EVERY launches, before each graph, and before the first of a stream
         ///< while the gate is closed
  kAlways,  ///< before a slice
};

/// Puts a gate in front of a launch that goes out plain, where gates may hold. Not for streams that
/// capture.
void GateStream(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                GateWhen when = GateWhen::kDue) noexcept;

/// For a launch that is about to be guarded, with launch_mutex held. While the process is asked to
/// leave the GPU its workers would come, take the GPU from whoever asked, run a block each, and
/// leave; without MPS that is two changes of context. So it waits at the gate; and where processes
/// above may ask, each launch gets one: it may be queued when they come. False: it does not wait.
bool GateGuarded(PreemptContext& context, const LaunchFacts& facts) noexcept;

/// Behind that gate: the stream tells the host line of slot `index` when it has come through, the
/// `passage`-th gate. The gate may open and close again while the stream waits for what lies before.
/// False: it will not tell.
bool TellPassage(PreemptContext& context, const LaunchFacts& facts, uint32_t index,
                 uint32_t passage) noexcept;

/// For the agent: what it puts into `helper` next, a resume of slot `index`, waits at the gate, and the
/// stream tells when it has come through. False: it does not, and nothing may be put behind it.
bool GateResume(PreemptContext& context, CUstream helper, uint32_t index,
                uint32_t passage) noexcept;

/// Makes a launch as the program did, or the same with the highest priority where that is of use
/// and the program asked for none. Falls back to the program's own call.
CUresult MakePlainLaunch(PreemptContext& context, const LaunchFacts& facts,
                         const LaunchCall& call) noexcept;

/// Whether launches of this context are to have the highest priority, and what that is.
bool WantsPriority(const PreemptContext& context) noexcept;

}  // namespace cupola::intercept::preempt
