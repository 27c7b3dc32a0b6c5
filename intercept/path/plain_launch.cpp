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
// The driver may load the kernel at this launch, and waits for the device meanwhile (loaded_kernels.h). So
// no task runs and no launch is guarded until it returns. Both scopes are opened even if nothing is guarded
// now, because another thread may be about to make a guarded launch or a task.
CUresult LaunchFirst(LaunchContext& context, const Launch& launch,
                     const ProgramCall& call) noexcept {
  const tasks::NoTasksScope no_tasks;
  const preempt::WaitingScope no_guarded(context);
  const CUresult result = MakePlainLaunch(context, launch, call);
  RecordKernelName(launch.function);
  if (result == CUDA_SUCCESS) MarkLoaded(launch.function);
  return result;
}

}  // namespace cupola::intercept
