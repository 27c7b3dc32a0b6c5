// Gates and launch priorities: how launches that are not preemptible are held back or preferred. A
// gate is a stream wait for the board's gate word (cuStreamWaitValue32). The launch path puts one
// into a stream every few launches. While the gate is closed, the stream's next launches wait on
// the GPU and the host does not block. Where processes share a context (MPS), a process that may
// ask others also launches with the highest priority. Any thread.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {

class GpuBoard;
struct Launch;
struct LaunchContext;
struct ProgramCall;

/// Whether a gate could hold the work behind it: the process puts gates, and others may ask it to
/// yield.
bool GatesMayHold(const GpuBoard& gpu) noexcept;
bool GatesMayHold(const LaunchContext& context) noexcept;

/// How long the launches between two gates take, or, while graphs in pieces are under way, the longest piece; in
/// nanoseconds, 0 = not known.
uint64_t BetweenGatesNs(const GpuBoard& gpu) noexcept;
/// How long it takes on average, once the gate is closed, until what is under way has come to one; in nanoseconds, 0 = not
/// known.
uint64_t MeanTimeToGateNs(const GpuBoard& gpu) noexcept;

enum class GateWhen : uint8_t {
  kDue,  ///< before each graph, before the first launch of a stream while the gate is closed, and before a launch with which
         ///< the launches since the last gate would take too long
  kAlways,  ///< before a slice
};

/// Puts a gate before a launch that goes out plain, if gates may hold it and `when` says that one is
/// due. `expected_ns` is the launch's expected time, 0 = unknown. Does nothing for a stream that captures.
void GateStream(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                GateWhen when = GateWhen::kDue, uint64_t expected_ns = 0) noexcept;

/// Puts a gate before a piece of a graph (graphs/pieces.h), if gates may hold it. The gate is not counted among the entries
/// that guards may hold (LaunchContext::queued).
void GatePiece(LaunchContext& context, CUstream stream, bool per_thread) noexcept;

/// Puts a gate before a launch that is about to be guarded, where GpuBoard::gates_guarded() says so; the caller holds
/// launch_mutex. False: the launch has no gate.
bool GateGuarded(LaunchContext& context, const Launch& launch) noexcept;

/// Called after GateGuarded: makes the stream write `passage`, the number of the gate, to the
/// HostStatus of slot `index` when it has passed the gate. The state of the gate itself does not
/// tell that: it may open and close again while the stream waits for work before the gate. False:
/// the stream will not write it.
bool TellPassage(LaunchContext& context, const Launch& launch, uint32_t index,
                 uint32_t passage) noexcept;

/// For the agent: puts a gate into the helper stream before a resume of slot `index`, and a write of
/// `passage` behind the gate, as TellPassage does. False: the driver refused one of the two, and the
/// resume must not be put there.
bool GateResume(LaunchContext& context, CUstream helper, uint32_t index,
                uint32_t passage) noexcept;

/// Makes a plain launch: with the highest priority if WantsPriority says so and the program set no
/// priority, otherwise as the program made it. If the driver refuses the launch with the priority,
/// the program's own call is made. Returns what the driver returned.
CUresult MakePlainLaunch(LaunchContext& context, const Launch& launch,
                         const ProgramCall& call) noexcept;

/// Whether plain launches of this context get the highest priority,
/// LaunchContext::greatest_priority.
bool WantsPriority(const LaunchContext& context) noexcept;

}  // namespace cupola::intercept
