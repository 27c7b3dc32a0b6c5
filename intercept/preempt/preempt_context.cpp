#include "intercept/preempt/preempt_context.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "intercept/facts/live_streams.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/facts/streams.h"
#include "intercept/preempt/agent.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/launch_prediction.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/wait_net.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"

namespace cupola::intercept::preempt {
namespace internal {
std::atomic<PreemptContext*> contexts[kMostContexts];
std::atomic<uint32_t> context_count{0};
}  // namespace internal

namespace {

using State = PreemptContext::State;

pthread_mutex_t make_mutex = PTHREAD_MUTEX_INITIALIZER;
HandleMap by_handle;  // CUcontext -> PreemptContext*; 1 = none will be made

constexpr uint64_t kNone = 1;
constexpr const char* kUnmapped = "the driver does not map the board";

const char* AllocateOnDevice(PreemptContext* context) {
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

bool MapBoardLocked(PreemptContext* context) {
  if (context->gate_word != 0) return true;
  const auto add = CUPOLA_CALL_REAL(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050);
  const auto address_of =
      CUPOLA_CALL_REAL(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020);
  if (context->board == nullptr) context->board = context->gpu->MapAgain();
  CUdeviceptr address = 0;
  if (context->board == nullptr ||
      add(context->board, sched::kBoardBytes, CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
      address_of(&address, context->board, 0) != CUDA_SUCCESS) {
    RefuseGates(context, kUnmapped);
    return false;
  }
  const CUdeviceptr slot =
      address + sched::kSlotsOffset + context->gpu->index() * sizeof(sched::BoardSlot);
  context->yield_line = slot + offsetof(sched::BoardSlot, yield_requests);
  __atomic_store_n(&context->gate_word, slot + offsetof(sched::BoardSlot, gate), __ATOMIC_RELEASE);
  return true;
}

const char* MapHostMemory(PreemptContext* context) {
  void* status = context->status;
  context->status_device = RegisterKept(
      &status, kSlots * sizeof(runtime::HostStatus) + PreemptContext::kHoldWords * sizeof(uint32_t));
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

// A guard that holds at once, on a helper stream: some drivers have no stream memory operations.
const char* TryGuard(PreemptContext* context) {
  const auto guard = CUPOLA_CALL_REAL(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070);
  const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
  return guard(context->helpers[0], context->controls, 0, CU_STREAM_WAIT_VALUE_GEQ) ==
                     CUDA_SUCCESS &&
                 wait(context->helpers[0]) == CUDA_SUCCESS
             ? nullptr
             : kNoStreamWaits;
}

PreemptContext* AddLocked(GpuBoard* gpu) {
  const uint32_t count = internal::context_count.load(std::memory_order_relaxed);
  if (count == internal::kMostContexts) return nullptr;
  auto* const added = new (std::nothrow) PreemptContext;
  if (added == nullptr) return nullptr;
  added->gpu = gpu;
  added->state.store(State::kDead);
  internal::contexts[count].store(added, std::memory_order_release);
  internal::context_count.store(count + 1, std::memory_order_release);
  return added;
}

// One whose context has ended. Of the same GPU: what is read of a dead one is its board. Its
// counters stay: scopes may be open in it yet, and whoever is about to close one or to take a
// launch back does so here.
PreemptContext* FindFreeLocked(const GpuBoard* gpu) {
  PreemptContext* found = nullptr;
  ForEachContextEver([&](PreemptContext& context) {
    if (context.is_free && context.gpu == gpu) found = &context;
  });
  if (found == nullptr) return nullptr;
  found->is_free = false;
  std::fill(std::begin(found->helpers), std::end(found->helpers), nullptr);
  found->helper_count = 0;
  found->controls = found->returned = found->status_device = 0;
  found->yield_line = found->gate_word = 0;
  found->reader.stream = nullptr;
  found->reader.has_copy = found->reader.is_refused = found->reader.is_under_way = false;
  for (auto& since : found->since_gate) since.store(0);
  for (auto& gated : found->gated_at) gated.store(0);
  found->gates_refused.store(false);
  found->markers_device = 0;
  return found;
}

PreemptContext* MakeLocked(CUcontext context) {
  CUdevice device = -1;
  const auto get_device = CUPOLA_CALL_REAL(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000);
  if (get_device(&device) != CUDA_SUCCESS) return nullptr;
  GpuBoard* const gpu = GpuBoard::Of(device);
  if (gpu == nullptr) return nullptr;
  PreemptContext* made = FindFreeLocked(gpu);
  if (made == nullptr) made = AddLocked(gpu);
  if (made == nullptr) {
    gpu->LoseControl("it has too many contexts");
    return nullptr;
  }
  made->greatest_priority = LevelsOfContext().greatest;
  made->context.store(context, std::memory_order_relaxed);
  made->state.store(State::kBoard, std::memory_order_release);
  return made;
}

}  // namespace

PreemptContext* FindContext(CUcontext context) noexcept {
  const uint64_t found = by_handle.Find(context, 0);
  return found > kNone ? reinterpret_cast<PreemptContext*>(found) : nullptr;
}

void LookForBoardsAgain() noexcept {
  const MutexLock lock(make_mutex);
  by_handle.EraseIf([](const void*, uint64_t value) { return value == kNone; });
}

PreemptContext* internal::FindOrMake(CUcontext context) noexcept {
  const uint64_t found = by_handle.Find(context, 0);
  if (found != 0 || context == nullptr) [[likely]] {
    return found > kNone ? reinterpret_cast<PreemptContext*>(found) : nullptr;
  }
  const MutexLock lock(make_mutex);
  if (const uint64_t now = by_handle.Find(context, 0); now != 0) {
    return now > kNone ? reinterpret_cast<PreemptContext*>(now) : nullptr;
  }
  PreemptContext* const made = MakeLocked(context);
  if (made != nullptr) StartAgent(made->gpu);
  by_handle.Set(context, made != nullptr ? reinterpret_cast<uint64_t>(made) : kNone);
  return made;
}

// Shared: a fork leaves the parent the pages that the device has; the child looks at none.
CUdeviceptr RegisterKept(void** memory, size_t bytes) noexcept {
  const auto add = CUPOLA_CALL_REAL(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050);
  const auto address_of =
      CUPOLA_CALL_REAL(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020);
  constexpr size_t kPage = 4096;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (*memory == nullptr) {
    void* const made =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return 0;
    *memory = made;
  }
  CUdeviceptr address = 0;
  const bool is_registered =
      add(*memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS &&
      address_of(&address, *memory, 0) == CUDA_SUCCESS;
  return is_registered ? address : 0;
}

void RefuseGates(PreemptContext* context, const char* why) noexcept {
  if (context->gates_refused.exchange(true)) return;
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"launches of this program are not held at gates: ", why});
  context->gpu->SetAbility(sched::kCanGate, false);
}

bool MapBoard(PreemptContext* context) noexcept {
  if (__atomic_load_n(&context->gate_word, __ATOMIC_ACQUIRE) != 0) [[likely]] return true;
  if (context->gates_refused.load() || open_captures.load() != 0) return false;
  const MutexLock lock(context->launch_mutex);
  const RelaxedCapture relaxed;
  return MapBoardLocked(context);
}

bool AddHelper(PreemptContext& context) noexcept {
  const uint32_t count = context.helper_count;
  if (count == PreemptContext::kMostHelpers) return false;
  if (count != 0 && !MakeRoomForHelper(count + 1)) return false;
  const auto create =
      CUPOLA_CALL_REAL(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050);
  if (create(&context.helpers[count], CU_STREAM_NON_BLOCKING, LevelsOfContext().helper()) !=
      CUDA_SUCCESS) {
    return false;
  }
  ++context.helper_count;
  return true;
}

void MakeReady(PreemptContext* context) noexcept {
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
    context->state.store(State::kPlain);
    return;
  }
  RegisterPreemptionExit();
  {
    const MutexLock slots_lock(context->slots_mutex);
    context->slots.Begin(context->status);
  }
  context->state.store(State::kReady, std::memory_order_release);
}

namespace {

uint32_t HarvestSlots(PreemptContext& context) {
  if (context.state.load(std::memory_order_acquire) != State::kReady) {
    return context.outstanding.load();
  }
  const uint64_t now = MonotonicNs();
  const MutexLock lock(context.slots_mutex);
  // Once more: whoever gave it up meanwhile has accounted for all of them.
  if (context.state.load() != State::kReady) return context.outstanding.load();
  const uint32_t complete = context.slots.Harvest([&](LaunchSlot& slot) {
    NoteComplete(slot, context.ArgumentsOf(context.slots.IndexOf(&slot)), now);
    context.gpu->slot().gpu_ns.fetch_add(now - slot.begun_ns, std::memory_order_relaxed);
  });
  if (const uint32_t resumes = context.slots.TakeResumes(); resumes != 0) {
    CountResumes(context, resumes);
  }
  if (complete == 0) return context.outstanding.load();
  context.was_stuck.store(false, std::memory_order_relaxed);
  const uint64_t total = context.queued.total();
  const uint32_t left = context.outstanding.fetch_sub(complete) - complete;
  if (left == 0) context.queued.NoteGone(total);
  Unwatch(complete);
  return left;
}

}  // namespace

uint32_t Harvest(PreemptContext& context) noexcept {
  const uint32_t left = HarvestSlots(context);
  LookAtKept(context);
  return left;
}

void CountResumes(PreemptContext& context, uint32_t resumes) noexcept {
  counters.resumes.fetch_add(resumes, std::memory_order_relaxed);
  context.gpu->slot().resumes.fetch_add(resumes, std::memory_order_relaxed);
}

void GiveUp(PreemptContext& context) noexcept {
  {
    const MutexLock lock(context.slots_mutex);
    if (context.state.exchange(State::kDead) != State::kReady) return;
    // Those that are just about to launch take their own one back when the driver refuses.
    const uint32_t running = context.slots.running();
    context.outstanding.fetch_sub(running);
    Unwatch(running);
  }
  LookAtKept(context);
}

void PauseContextState(CUcontext context) noexcept {
  const MutexLock lock(make_mutex);
  PreemptContext* const known = FindContext(context);
  if (known == nullptr) return;
  const AgentPause pause(*known->gpu);
  (void)Harvest(*known);
  // Launches go on where the call did not wait for them to its end (wait_net.h) and the context may go on
  // too: nobody will look at them any more, so they are never to stop.
  if (known->outstanding.load() != 0 && IsWell(*known)) {
    known->is_kept_for_good = true;
    (void)known->gpu->BeginNotNow();
  }
  {
    // With a launch that is not known to be complete, after a fault, it goes on in no case.
    const MutexLock slots_lock(known->slots_mutex);
    known->paused = known->slots.running() == 0 ? known->state.load() : State::kDead;
  }
  GiveUp(*known);
  known->state.store(State::kDead);
  pthread_mutex_lock(&known->asking_mutex);  // whoever asks about it just now has done so
  pthread_mutex_unlock(&known->asking_mutex);
  ForgetContextOfDemand(*known);
}

void ResumeContextState(CUcontext context) noexcept {
  const MutexLock lock(make_mutex);
  PreemptContext* const known = FindContext(context);
  if (known != nullptr) known->state.store(known->paused);
}

PreemptContext* EndContextState(CUcontext context) noexcept {
  const MutexLock lock(make_mutex);
  PreemptContext* const known = FindContext(context);
  by_handle.Erase(context);
  if (known == nullptr) return nullptr;
  if (std::exchange(known->is_kept_for_good, false)) known->gpu->EndNotNow();
  if (known->reader.stream != nullptr) UncountStream();
  return known;
}

void FreeContextState(PreemptContext* ended) noexcept {
  if (ended == nullptr) return;
  const MutexLock lock(make_mutex);
  ended->is_free = true;
}

void ForgetContextsAfterFork() noexcept {
  make_mutex = PTHREAD_MUTEX_INITIALIZER;
  internal::context_count.store(0);
  internal::contexts[0].store(nullptr);  // ContextFor looks at it
  by_handle.ResetAfterFork();
}

}  // namespace cupola::intercept::preempt
