// Pass: the body of a kernel as a function that an executor warp calls. Internal to the folder.
//
// What the launch gave the kernel comes from elsewhere: parameters from the task's record in shared
// memory, indices and sizes from the function's own parameters and the record, shared memory from
// the block's part of the arena, and the block barrier is `cupola_sync_block`, which knows that
// other blocks are in the same MTB. Lanes without a thread do not come here, so member masks are
// cut to those that do. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "device/compiler/passes/plan.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// "<kernel>__cupola_task"
std::string TaskName(std::string_view kernel);

/// The parameters of cupola_run_body behind the first one, and so of every body.
std::vector<ptx::Variable> TaskBodyParameters();

/// Where the shared variables that a kernel names lie in its block's part of the arena.
struct SharedLayout {
  std::map<std::string, uint32_t, std::less<>> offsets;
  uint32_t bytes = 0;  ///< of the static ones, rounded up so that dynamic ones may follow
  uint32_t align = 1;  ///< the greatest of any
};
SharedLayout LayOutShared(const KernelPlan& plan, const CallGraph& calls);

/// Why a kernel that could be looped over (plan.preemptible_refusal is empty) cannot be a task; ""
/// = it can. `arch`: as in TaskModuleOptions.
std::string RefuseTask(const KernelPlan& plan, const CallGraph& calls, uint32_t arch);

/// Whether the threads of a block wait for each other.
bool UsesBlockBarrier(const KernelPlan& plan);

/// The function. Precondition: RefuseTask says nothing. Variables of the module are not reached by
/// address yet.
ptx::Function MakeTaskBody(const KernelPlan& plan, const SharedLayout& shared, uint32_t arch);

}  // namespace cupola::passes
