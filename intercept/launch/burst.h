// The burst of a process on one GPU, from its first launch to the end of its work: begins it, puts its demand on the
// board, and ends it. For demand.cpp, whose functions the program's threads call, and for demand_agent.cpp. Any thread;
// no driver calls. docs/gates.md (Demand).
#pragma once

#include <cstdint>

#include "intercept/launch/demand.h"

namespace cupola::intercept::burst {

/// How long the agent sleeps between two looks at a burst for whose end others wait.
inline constexpr uint64_t kTickNs = 1'000'000;

/// How long the demand counts from now on, if the launch is predicted to take `predicted_ns` (0 = unknown).
uint64_t LeaseFor(const GpuBoard& gpu, uint64_t predicted_ns);

/// Whether anybody waits for this process's demand to end: the processes that it asks itself, or the
/// daemon, which holds others while the demand lasts.
bool IsHeeded(const GpuBoard& gpu);

/// The stream of that id in the burst; null if it has not been added.
BurstStream* FindStream(DemandState& state, uint64_t stream);
/// Adds a stream, or notes its latest launch.
void AddStream(DemandState& state, LaunchContext& context, uint64_t stream, CUstream handle);

/// Begins a burst with a launch on `stream`, or for kManyStreams with launches on streams that are not
/// told apart. False: another thread has begun it. `wakes` are those to wake after the launch.
bool Begin(LaunchContext& context, uint64_t stream, CUstream handle, uint64_t predicted_ns, uint32_t sms,
           sched::Wakes* wakes);

/// A burst that has not asked so far asks now.
void AskLate(GpuBoard& gpu, uint64_t now_ns);

/// The burst needs more SMs than before: processes that left only as many as it needed so far must
/// leave more.
void NeedMoreSms(GpuBoard& gpu, uint32_t sms, uint64_t now_ns);

/// Claims the change of the burst that there is; false: there is none. Then EndEntered ends it, or the caller sets the
/// phase to kOn again.
bool Enter(GpuBoard& gpu);
void EndEntered(GpuBoard& gpu, uint64_t now_ns);

/// After the end of a burst, which was decided when the process had made `launches` launches: begins one at once if
/// the process has launched since, because that launch may have found the burst on, and so not have begun it.
void BeginIfLaunched(GpuBoard& gpu, uint64_t launches);

/// Ends the burst, if there is one. A launch that comes meanwhile waits in Begin, and begins a burst anew.
void End(GpuBoard& gpu, uint64_t now_ns);
/// The same, and BeginIfLaunched.
void EndUnlessLaunched(GpuBoard& gpu, uint64_t launches, uint64_t now_ns);

}  // namespace cupola::intercept::burst
