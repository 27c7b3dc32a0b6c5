#include "intercept/preempt/plain_launch.h"

#include "intercept/path/launch_path.h"
#include "intercept/preempt/gates.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launched_names.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/waiting.h"
#include "intercept/tasks/task_rules.h"

namespace cupola::intercept::preempt {
// A graph may wait for events, and for its last launch on another stream; what comes behind it for the
// program.
CUresult LaunchGraph(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                     const LaunchCall& call) noexcept {
  NoteJoin(context, facts.stream, facts.per_thread);
  EnterPlain(context);
  const bool is_captured = IsCapturing(facts.stream, facts.per_thread);
  const uint64_t hold =
      is_captured ? 0 : BeginGraph(facts.graph, stream, facts.stream, facts.per_thread);
  const CUresult result = MakePlainLaunch(context, facts, call);
  EndHold(hold);
  return result;
}

// Also where nothing is guarded now: another thread may be about to. No MasterKernel is fed.
CUresult LaunchFirst(PreemptContext& context, const LaunchFacts& facts,
                     const LaunchCall& call) noexcept {
  const tasks::WaitingScope no_tasks;
  const WaitingScope scope(context);
  const CUresult result = MakePlainLaunch(context, facts, call);
  NoteName(facts.function);
  if (result == CUDA_SUCCESS) NoteLoaded(facts.function);
  return result;
}

}  // namespace cupola::intercept::preempt
