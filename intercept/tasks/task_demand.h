// Tasks of a process that takes part in preemption: they count as its launches, the MasterKernel is
// what it has on the GPU, and leaves when the process is asked to yield. docs/launches-as-tasks.md.
#pragma once

#include <cuda.h>

#include "intercept/facts/streams.h"
#include "sched/board/yield_protocol.h"

namespace cupola::intercept::preempt {
class GpuBoard;
struct PreemptContext;
}  // namespace cupola::intercept::preempt

namespace cupola::intercept::tasks {

/// What preemption keeps of the stream's context, made at the first call; null where it is off.
preempt::PreemptContext* ContextOf(const StreamKey& key) noexcept;

/// Whether the context's process is asked to leave its GPU: no launch becomes a task meanwhile, and
/// what goes out in its place is held by gates. Where preemption is off, whether a tool is at work
/// in the process.
bool IsAskedToYield(const StreamKey& key) noexcept;

/// Around putting a task in, a kernel or a copy (`function` null): the board hears of it before,
/// and who sleeps is woken behind it. Nothing where preemption is off.
class TaskDemand {
 public:
  TaskDemand(const StreamKey& key, CUstream stream, const void* function = nullptr) noexcept;
  ~TaskDemand();
  TaskDemand(const TaskDemand&) = delete;
  TaskDemand& operator=(const TaskDemand&) = delete;

 private:
  preempt::PreemptContext* context_ = nullptr;
  sched::Wakes wakes_;
};

/// Whether a MasterKernel is on that GPU, or on its way there. Asks the driver while one leaves, and
/// every 10 ms whether its context is well.
bool IsResidentOn(const preempt::GpuBoard& gpu) noexcept;

/// The same, or has left and has tasks to go on with.
bool HasWorkOn(const preempt::GpuBoard& gpu) noexcept;

/// Has one that takes tasks on that GPU leave when it has run what is there. A store at most.
void AskToLeave(const preempt::GpuBoard& gpu) noexcept;

/// For the agent, while others want the GPU: has those on it leave as soon as the blocks that run have
/// ended, where streams have queues of their own; else when they have run what is there. Again and
/// again: it is launched once more for a task that was put in meanwhile.
void Hold(const preempt::GpuBoard& gpu) noexcept;
/// When they do no longer: runs the rest. Until it returns true.
bool GoOn(const preempt::GpuBoard& gpu) noexcept;

/// For who goes on though tasks are stuck: nobody asks the process to yield on the GPUs that its engines are
/// of (preempt/gpu_board.h), so that no MasterKernel is sent away while it is in the driver. A bit for each
/// GPU, for EndNotNow. `*is_so` false: somebody asks, or an engine is held. Nothing where preemption is off.
[[nodiscard]] uint32_t BeginNotNow(bool* is_so) noexcept;
void EndNotNow(uint32_t gpus) noexcept;

/// For streams_share_queues (facts/live_streams.h): waits until nothing is held, where the streams do not fit yet.
/// Subscribed behind preemption, whose guarded launches have ended by then.
void AwaitHeldWhereQueuesAreShared() noexcept;

}  // namespace cupola::intercept::tasks
