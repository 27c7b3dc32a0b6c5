// Resident: the functions through which preempt/, tasks/ and batches/ call each other, and through which the layers
// below call them. Each of the three keeps work that holds up others: guarded launches that may have been stopped, the
// MasterKernel, and launches that are held back. They do not include each other's headers; each fills its part when
// the process starts (preempt::StartPreemption, tasks::StartTasks, batches::StartBatches), before any launch. The
// functions of a part that is not filled do nothing and answer that nothing is there. Any thread may call them, except
// where a function is said to be for the agent.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept {

class GpuBoard;
struct LaunchContext;

/// The MasterKernels. Filled by tasks/tasks.cpp; the functions are in tasks/task_demand.cpp.
struct ResidentTasks {
  /// Whether a MasterKernel runs on that GPU or has been launched there. May ask the driver.
  bool (*are_on)(const GpuBoard&) noexcept = [](const GpuBoard&) noexcept { return false; };
  /// Whether are_on is true, or a MasterKernel has left with tasks still to run.
  bool (*have_work_on)(const GpuBoard&) noexcept = [](const GpuBoard&) noexcept { return false; };
  /// Makes a MasterKernel on that GPU leave once it has run the tasks that are there. One store at most.
  void (*ask_to_leave)(const GpuBoard&) noexcept = [](const GpuBoard&) noexcept {};
  /// For the agent, while others want the GPU: makes the MasterKernels leave as soon as possible. Called repeatedly.
  void (*hold)(const GpuBoard&) noexcept = [](const GpuBoard&) noexcept {};
  /// For the agent, when others no longer want the GPU: lets tasks go on. False: not yet; to be called again.
  bool (*go_on)(const GpuBoard&) noexcept = [](const GpuBoard&) noexcept { return true; };
};

/// The guarded launches. Filled by preempt/preemption.cpp.
struct ResidentGuarded {
  /// Called when a board gets a context: starts the agent of the board, once.
  void (*start_agent)(GpuBoard*) noexcept = [](GpuBoard*) noexcept {};
  /// Accounts for guarded launches that are complete. Returns how many are outstanding.
  uint32_t (*harvest)(LaunchContext&) noexcept = [](LaunchContext&) noexcept { return 0u; };
  /// Asks the driver whether the context still works; if not, gives its guarded launches up and returns false.
  bool (*is_well)(LaunchContext&) noexcept = [](LaunchContext&) noexcept { return true; };
  /// For OwnCallScope (own_call_scope.h): waits until no guarded launch of the context is outstanding; until
  /// close_scope none is made. Returns is_kept. True: the wait was given up (preempt/wait_net.h); launches still run,
  /// and are not stopped until close_scope.
  bool (*open_scope)(LaunchContext&) noexcept = [](LaunchContext&) noexcept { return false; };
  void (*close_scope)(LaunchContext&, bool is_kept) noexcept = [](LaunchContext&, bool) noexcept {};
  /// Whether some stream of the context waits for a hold of the program.
  bool (*is_held)(CUcontext) noexcept = [](CUcontext) noexcept { return false; };
};

/// Launches that are held back to go out as one graph (batches). Filled by batches/batches.cpp.
struct ResidentBatches {
  /// Gives the driver the launches that are held back, so that what follows comes behind them.
  void (*end_row)() noexcept = []() noexcept {};
};

struct Resident {
  ResidentTasks tasks;
  ResidentBatches batches;
  ResidentGuarded guarded;
};
/// The one of the process. Constant initialisation: usable before any constructor runs.
extern Resident resident;

}  // namespace cupola::intercept
