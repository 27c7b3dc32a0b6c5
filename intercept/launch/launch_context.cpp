#include "intercept/launch/launch_context.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "intercept/facts/context_scope.h"
#include "intercept/facts/live_streams.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/resident.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {
namespace launch_contexts {
std::atomic<LaunchContext*> all[kMost];
std::atomic<uint32_t> count{0};
}  // namespace launch_contexts

pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;

namespace {

using State = LaunchContext::State;

static_assert(LaunchContext::kMostHelpers <= kMostHelperStreams);

HandleMap by_handle;  // CUcontext -> LaunchContext*, or kNone: none will be made for it

constexpr uint64_t kNone = 1;

LaunchContext* AddLocked(GpuBoard* gpu) {
  const uint32_t count = launch_contexts::count.load(std::memory_order_relaxed);
  if (count == launch_contexts::kMost) return nullptr;
  auto* const added = new (std::nothrow) LaunchContext;
  if (added == nullptr) return nullptr;
  added->gpu = gpu;
  added->state.store(State::kDead);
  launch_contexts::all[count].store(added, std::memory_order_release);
  launch_contexts::count.store(count + 1, std::memory_order_release);
  return added;
}

// Finds a LaunchContext whose context has ended, of the same GPU, because threads may still read
// its `gpu`. Its counters are not reset: scopes may still be open in it, and threads that are about
// to close one or to take a launch back will still count down here.
LaunchContext* FindFreeLocked(const GpuBoard* gpu) {
  LaunchContext* found = nullptr;
  ForEachContextEver([&](LaunchContext& context) {
    if (context.is_free && context.gpu == gpu) found = &context;
  });
  if (found == nullptr) return nullptr;
  found->is_free = found->is_paused = false;
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
  found->pieces.words_device.store(0);
  found->pieces.feed_stream = nullptr;
  found->pieces.free_events.store(0);
  return found;
}

LaunchContext* MakeLocked(CUcontext context) {
  const ContextScope current(context);
  CUdevice device = -1;
  const auto get_device = CUPOLA_CALL_REAL(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000);
  if (!current.is_made() || get_device(&device) != CUDA_SUCCESS) return nullptr;
  GpuBoard* const gpu = GpuBoard::Of(device);
  if (gpu == nullptr) return nullptr;
  LaunchContext* made = FindFreeLocked(gpu);
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

LaunchContext* FindContext(CUcontext context) noexcept {
  const uint64_t found = by_handle.Find(context, 0);
  return found > kNone ? reinterpret_cast<LaunchContext*>(found) : nullptr;
}

void LookForBoardsAgain() noexcept {
  const MutexLock lock(contexts_mutex);
  by_handle.EraseIf([](const void*, uint64_t value) { return value == kNone; });
}

LaunchContext* launch_contexts::FindOrMake(CUcontext context) noexcept {
  const uint64_t found = by_handle.Find(context, 0);
  if (found != 0 || context == nullptr) [[likely]] {
    return found > kNone ? reinterpret_cast<LaunchContext*>(found) : nullptr;
  }
  const MutexLock lock(contexts_mutex);
  if (const uint64_t now = by_handle.Find(context, 0); now != 0) {
    return now > kNone ? reinterpret_cast<LaunchContext*>(now) : nullptr;
  }
  LaunchContext* const made = MakeLocked(context);
  if (made != nullptr) resident.guarded.start_agent(made->gpu);
  by_handle.Set(context, made != nullptr ? reinterpret_cast<uint64_t>(made) : kNone);
  return made;
}

// MAP_SHARED: so a fork leaves the parent the pages that the device writes. The child looks at
// none.
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

bool MapBoardLocked(LaunchContext* context) noexcept {
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

void RefuseGates(LaunchContext* context, const char* why) noexcept {
  if (context->gates_refused.exchange(true)) return;
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"launches of this program are not held at gates: ", why});
  context->gpu->SetAbility(sched::kCanGate, false);
}

bool MapBoard(LaunchContext* context) noexcept {
  if (__atomic_load_n(&context->gate_word, __ATOMIC_ACQUIRE) != 0) [[likely]] return true;
  if (context->gates_refused.load() || open_captures.load() != 0) return false;
  const MutexLock lock(context->launch_mutex);
  const RelaxedCapture relaxed;
  const ContextScope current(context->context);
  return current.is_made() && MapBoardLocked(context);
}

// No thread takes a launch_mutex under contexts_mutex.
void LeaveBoardState(LaunchContext& context, State to) noexcept {
  const MutexLock lock(contexts_mutex);
  State board = State::kBoard;
  if (!context.is_paused) {
    context.state.compare_exchange_strong(board, to, std::memory_order_release);
  } else if (context.paused == board) {
    context.paused = to;
  }
}

void ResumeContextState(CUcontext context) noexcept {
  const MutexLock lock(contexts_mutex);
  LaunchContext* const known = FindContext(context);
  if (known != nullptr && std::exchange(known->is_paused, false)) known->state.store(known->paused);
}

LaunchContext* EndContextState(CUcontext context) noexcept {
  const MutexLock lock(contexts_mutex);
  LaunchContext* const known = FindContext(context);
  by_handle.Erase(context);
  if (known == nullptr) return nullptr;
  if (std::exchange(known->is_kept_for_good, false)) known->gpu->EndNotNow();
  if (known->reader.stream != nullptr) UncountStream();
  if (known->pieces.feed_stream != nullptr) UncountStream();
  for (uint32_t helper = known->helper_count; helper > 1; --helper) DropHelper(helper);
  return known;
}

void FreeContextState(LaunchContext* ended) noexcept {
  if (ended == nullptr) return;
  const MutexLock lock(contexts_mutex);
  ended->is_free = true;
}

void ForgetContextsAfterFork() noexcept {
  contexts_mutex = PTHREAD_MUTEX_INITIALIZER;
  launch_contexts::count.store(0);
  launch_contexts::all[0].store(nullptr);  // ContextFor reads it without looking at `count`
  by_handle.ResetAfterFork();
}

}  // namespace cupola::intercept
