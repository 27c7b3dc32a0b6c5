#include "intercept/path/plain_launch.h"

#include "intercept/launch/gates.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launched_names.h"
#include "intercept/launch/loaded_kernels.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/waiting.h"
#include "intercept/tasks/task_rules.h"

namespace cupola::intercept {
// A graph may wait for events, and for its last launch on another stream (RecordJoin). Work behind it may
// wait for the program (BeginGraph).
CUresult LaunchGraph(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                     const ProgramCall& call) noexcept {
  preempt::RecordJoin(context, launch.stream, launch.per_thread);
  preempt::EnterPlain(context);
  const bool is_captured = IsCapturing(launch.stream, launch.per_thread);
  const uint64_t hold =
      is_captured ? 0 : preempt::BeginGraph(launch.graph, stream, launch.stream, launch.per_thread);
  const CUresult result = MakePlainLaunch(context, launch, call);
  preempt::EndHold(hold);
  return result;
}

// The scopes are opened even if nothing is guarded now, because another thread may be about to make a
// guarded launch. No MasterKernel gets tasks meanwhile.
CUresult LaunchFirst(LaunchContext& context, const Launch& launch,
                     const ProgramCall& call) noexcept {
  const tasks::WaitingScope no_tasks;
  const preempt::WaitingScope no_guarded(context);
  const CUresult result = MakePlainLaunch(context, launch, call);
  RecordKernelName(launch.function);
  if (result == CUDA_SUCCESS) MarkLoaded(launch.function);
  return result;
}

}  // namespace cupola::intercept
