// Pass: makes the body of a kernel a function that an executor warp calls. Internal to the folder.
//
// The function gets from elsewhere what a launch gives a kernel. Parameters come from the task's
// record in shared memory, indices and sizes from the function's own parameters and the record,
// shared memory from the block's part of the arena. The block barrier is `cupola_sync_block`, which
// knows that other blocks are in the same MTB. Lanes without a thread never run the function, so
// member masks are reduced to the lanes that do. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "device/compiler/passes/plan.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// The name of a kernel's body: "<kernel>__cupola_task".
std::string TaskName(std::string_view kernel);

/// The parameters of cupola_run_body behind its first one. Every body has these parameters.
std::vector<ptx::Variable> TaskBodyParameters();

/// Where the shared variables that a kernel names lie in its block's part of the arena.
struct SharedLayout {
  std::map<std::string, uint32_t, std::less<>> offsets;
  uint32_t bytes = 0;  ///< size of the static variables, rounded up so that dynamic ones may follow
  uint32_t align = 1;  ///< the greatest alignment of any variable
};
SharedLayout LayOutShared(const KernelPlan& plan, const CallGraph& calls);

/// Why a kernel whose plan.preemptible_refusal is empty cannot be a task; "": it can. `arch`: as in
/// TaskModuleOptions.
std::string RefuseTask(const KernelPlan& plan, const CallGraph& calls, uint32_t arch);

/// Whether the threads of a block wait for each other.
bool UsesBlockBarrier(const KernelPlan& plan);

/// Makes the function. Precondition: RefuseTask returned "". The function still names variables of
/// the module: the caller applies ReachVariablesByAddress afterwards.
ptx::Function MakeTaskBody(const KernelPlan& plan, const SharedLayout& shared, uint32_t arch);

}  // namespace cupola::passes
