// Tasks of a process that takes part in preemption: they renew its demand as launches do, its
// MasterKernel counts as work on the GPU, and the MasterKernel leaves when the process is asked to
// yield. Any thread, unless a function says otherwise; where preemption is off the functions do
// nothing. docs/task-order.md.
#pragma once

#include <cuda.h>

#include "intercept/facts/streams.h"
#include "sched/board/yield_protocol.h"

namespace cupola::intercept {
class GpuBoard;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::tasks {

/// What preemption keeps about the stream's context, made at the first call; null if preemption is
/// off.
LaunchContext* ContextOf(const StreamKey& key) noexcept;

/// Whether the process is asked to leave the GPU of the stream's context, or stands aside for a
/// tool. Meanwhile no launch becomes a task, and gates hold the plain launches that go out instead.
/// Where preemption is off: only whether the process stands aside for a tool.
bool IsAskedToYield(const StreamKey& key) noexcept;

/// Lives while a task is put in, for a kernel or for a copy (`function` is null). The constructor
/// announces the demand on the board; the destructor wakes those who sleep there.
class TaskDemand {
 public:
  TaskDemand(const StreamKey& key, CUstream stream, const void* function = nullptr) noexcept;
  ~TaskDemand();
  TaskDemand(const TaskDemand&) = delete;
  TaskDemand& operator=(const TaskDemand&) = delete;

 private:
  LaunchContext* context_ = nullptr;  ///< null: preemption is off
  sched::Wakes wakes_;                ///< who is to be woken
};

/// Whether a MasterKernel is on that GPU or on its way there. Queries the driver while one leaves,
/// and every 10 ms whether its context has faulted.
bool IsResidentOn(const GpuBoard& gpu) noexcept;

/// Whether a MasterKernel is on that GPU, or has left it with tasks that are still to run.
bool HasWorkOn(const GpuBoard& gpu) noexcept;

/// Asks the MasterKernels on that GPU to leave when they have run the tasks that are in their
/// tables. Costs a store for each at most.
void AskToLeave(const GpuBoard& gpu) noexcept;

/// Called by the agent, repeatedly while other processes want the GPU: asks the MasterKernels on it
/// to leave as soon as the blocks that run have ended, if every stream has a hardware queue of its
/// own; else when they have run the tasks in their tables. It is called repeatedly because in the
/// second case a task that is put in meanwhile starts a MasterKernel again.
void Hold(const GpuBoard& gpu) noexcept;
/// Called by the agent when no other process wants the GPU any more, until it returns true: has the
/// held tasks run.
bool GoOn(const GpuBoard& gpu) noexcept;

/// For a thread that makes its driver call although tasks are stuck: until EndNotNow no other
/// process may ask this one to yield on the GPUs of its engines (launch/gpu_board.h), so that no
/// MasterKernel is sent away while the call is in the driver. Returns a bit for each GPU, which the
/// caller gives to EndNotNow. Sets `*is_so` to false if another process asks already or an engine
/// is held; the caller then gives the bits back and waits on.
[[nodiscard]] uint32_t BeginNotNow(bool* is_so) noexcept;
void EndNotNow(uint32_t gpus) noexcept;

/// Subscriber of streams_share_queues (facts/live_streams.h), which is announced when there are
/// more streams than hardware queues: waits until the tasks of held engines have run. Preemption
/// subscribes earlier, so its guarded launches have ended by then.
void AwaitHeldWhereQueuesAreShared() noexcept;

}  // namespace cupola::intercept::tasks
