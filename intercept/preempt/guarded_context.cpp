#include "intercept/preempt/guarded_context.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "intercept/facts/live_streams.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/stoppable_time.h"
#include "intercept/preempt/agent.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/wait_net.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/participation.h"

namespace cupola::intercept::preempt {
namespace {

using State = LaunchContext::State;

const char* AllocateOnDevice(LaunchContext* context) {
  const auto allocate = CUPOLA_CALL_REAL(cuMemAlloc_v2, PFN_cuMemAlloc_v3020);
  const auto fill = CUPOLA_CALL_REAL(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020);
  const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
  const size_t control_bytes = kSlots * sizeof(runtime::ControlSlot);
  const size_t returned_bytes = kSlots * sizeof(runtime::ReturnedList);
  if (!AddHelper(*context)) return "no helper stream";
  if (allocate(&context->controls, control_bytes) != CUDA_SUCCESS ||
      allocate(&context->returned, returned_bytes) != CUDA_SUCCESS) {
    return "no device memory";
  }
  if (fill(context->controls, 0, control_bytes, context->helpers[0]) != CUDA_SUCCESS ||
      fill(context->returned, 0, returned_bytes, context->helpers[0]) != CUDA_SUCCESS ||
      wait(context->helpers[0]) != CUDA_SUCCESS) {
    return "device memory cannot be cleared";
  }
  return nullptr;
}

const char* MapHostMemory(LaunchContext* context) {
  void* status = context->status;
  context->status_device = RegisterKept(
      &status, kSlots * sizeof(runtime::HostStatus) + LaunchContext::kHoldWords * sizeof(uint32_t));
  context->status = static_cast<runtime::HostStatus*>(status);
  if (context->status_device == 0) return "no mapped memory";
  if (!MapBoardLocked(context)) return kUnmapped;
  if (context->arguments != nullptr) return nullptr;
  void* arguments = mmap(nullptr, kSlots * size_t{kArgumentBytes}, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arguments == MAP_FAILED) return "no memory";
  context->arguments = static_cast<std::byte*>(arguments);
  return nullptr;
}

// Tries a guard whose condition is already true, on a helper stream: some drivers have no stream
// memory operations.
const char* TryGuard(LaunchContext* context) {
  const auto guard = CUPOLA_CALL_REAL(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070);
  const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
  return guard(context->helpers[0], context->controls, 0, CU_STREAM_WAIT_VALUE_GEQ) ==
                     CUDA_SUCCESS &&
                 wait(context->helpers[0]) == CUDA_SUCCESS
             ? nullptr
             : kNoStreamWaits;
}

}  // namespace

bool AddHelper(LaunchContext& context) noexcept {
  const uint32_t count = context.helper_count;
  if (count == LaunchContext::kMostHelpers) return false;
  if (count != 0 && !MakeRoomForHelper(count + 1)) return false;
  const auto create =
      CUPOLA_CALL_REAL(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050);
  if (create(&context.helpers[count], CU_STREAM_NON_BLOCKING, LevelsOfContext().helper()) !=
      CUDA_SUCCESS) {
    if (count != 0) DropHelper(count + 1);
    return false;
  }
  ++context.helper_count;
  return true;
}

void MakeReady(LaunchContext* context) noexcept {
  const MutexLock lock(context->launch_mutex);
  if (context->state.load() != State::kBoard) return;
  const RelaxedCapture relaxed;
  const char* why = AllocateOnDevice(context);
  if (why == nullptr) why = MapHostMemory(context);
  if (why == nullptr) why = TryGuard(context);
  if (why == kNoStreamWaits) RefuseGates(context, why);
  if (why != nullptr) {
    static std::atomic_flag said;
    SayOnce(said, Level::kWarn, {"kernels of this program cannot be preempted: ", why});
    LeaveBoardState(*context, State::kPlain);
    return;
  }
  RegisterPreemptionExit();
  {
    const MutexLock slots_lock(context->slots_mutex);
    context->slots.Begin(context->status);
  }
  LeaveBoardState(*context, State::kReady);
}

namespace {

uint32_t HarvestSlots(LaunchContext& context) {
  if (context.state.load(std::memory_order_acquire) != State::kReady) {
    return context.outstanding.load();
  }
  const uint64_t now = MonotonicNs();
  const MutexLock lock(context.slots_mutex);
  // Checked again under the mutex: a thread that gave the context up meanwhile (GiveUp) has accounted
  // for all its launches.
  if (context.state.load() != State::kReady) return context.outstanding.load();
  uint64_t since = now;  // when the first of the launches that have ended was made
  const uint32_t complete = context.slots.Harvest([&](LaunchSlot& slot) {
    ObserveCompletion(slot, context.ArgumentsOf(context.slots.IndexOf(&slot)), now);
    since = std::min(since, slot.begun_ns);
  });
  if (complete != 0) {
    // Launches wait for one another, and each moment counts once.
    since = std::max(since, std::exchange(context.gpu_counted_ns, now));
    if (since < now) CountStopsAtBlocks(*context.gpu, now - since);
  }
  if (const uint32_t resumes = context.slots.TakeResumes(); resumes != 0) {
    CountResumes(context, resumes);
  }
  if (complete == 0) return context.outstanding.load();
  context.was_stuck.store(false, std::memory_order_relaxed);
  const uint64_t total = context.queued.total();
  const uint32_t left = context.outstanding.fetch_sub(complete) - complete;
  if (left == 0) context.queued.MarkGone(total);
  Unwatch(complete);
  return left;
}

}  // namespace

uint32_t Harvest(LaunchContext& context) noexcept {
  const uint32_t left = HarvestSlots(context);
  LookAtKept(context);
  return left;
}

bool NoneIsGuarded(LaunchContext& context) noexcept {
  const MutexLock lock(context.slots_mutex);
  return context.slots.running() == 0;
}

void CountResumes(LaunchContext& context, uint32_t resumes) noexcept {
  launch_counters.resumes.fetch_add(resumes, std::memory_order_relaxed);
  context.gpu->slot().resumes.fetch_add(resumes, std::memory_order_relaxed);
}

void GiveUp(LaunchContext& context) noexcept {
  {
    const MutexLock lock(context.slots_mutex);
    if (context.state.exchange(State::kDead) != State::kReady) return;
    // A thread that is about to launch takes its own count back when the driver refuses.
    const uint32_t running = context.slots.running();
    context.outstanding.fetch_sub(running);
    Unwatch(running);
  }
  LookAtKept(context);
}

void PauseContextState(CUcontext context) noexcept {
  const MutexLock lock(contexts_mutex);
  LaunchContext* const known = FindContext(context);
  if (known == nullptr) return;
  const AgentPause pause(*known->gpu);
  (void)Harvest(*known);
  // Launches are still outstanding if the call's wait was given up (wait_net.h). The context may go on, and
  // nobody will look at these launches any more, so they must never be stopped.
  if (known->outstanding.load() != 0 && IsWell(*known)) {
    known->is_kept_for_good = true;
    (void)known->gpu->BeginNotNow();
  }
  {
    // If a launch is not known to be complete, the context stays dead whether or not it goes on.
    const MutexLock slots_lock(known->slots_mutex);
    known->is_paused = true;
    known->paused = known->slots.running() == 0 ? known->state.load() : State::kDead;
  }
  GiveUp(*known);
  known->state.store(State::kDead);
  pthread_mutex_lock(&known->asking_mutex);  // waits for a thread that is asking the driver about it
  pthread_mutex_unlock(&known->asking_mutex);
  ForgetContextOfDemand(*known);
}

}  // namespace cupola::intercept::preempt
