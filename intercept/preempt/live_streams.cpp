#include "intercept/preempt/live_streams.h"

#include <atomic>

#include "intercept/driver_calls.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/hardware_queues.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/wait_net.h"
#include "intercept/preempt/waiting.h"
#include "intercept/streams.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/tasks.h"
#include "intercept/thread_state.h"

namespace cupola::intercept::preempt {
namespace {

std::atomic<uint32_t> live{0};
std::atomic<uint32_t> helpers{1};  // of the context that has most; each has one

// The legacy stream, and one for what the driver does by itself.
constexpr uint32_t kOwnQueues = 2;

}  // namespace

// The stream counts from before the wait, so that no launch is guarded after it.
void MakeRoomForStream() noexcept {
  if (!PreemptionOn() && !tasks::TasksOn()) return;
  live.fetch_add(1);
  if (PreemptionOn() && !StreamsFitQueues()) {
    ForEachContext([](PreemptContext& context) {
      if (StreamsFitQueues()) return;
      WaitingScope scope(context);
      if (!scope.is_kept()) GiveBackReader(context);
      scope.KeepOn();
    });
    if (!StreamsFitQueues()) tasks::AwaitHeldTasks();
  }
}

void UncountStream() noexcept {
  uint32_t now = live.load(std::memory_order_relaxed);
  while (now != 0 && !live.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
  }
}

void NoteStreamEnding(CUstream stream) noexcept {
  if (!PreemptionOn()) return;
  PreemptContext* const context = FindContext(KnownContextOf(stream));
  if (context != nullptr) ForgetStreamOfDemand(*context, stream);
}

// It counts from before the look, as streams of the program do: of two that come at once neither
// may fit, but not both.
bool MakeRoomForHelper(uint32_t count) noexcept {
  if (live.load() + count + kOwnQueues > settings.queues) return false;
  uint32_t most = helpers.load();
  while (most < count && !helpers.compare_exchange_weak(most, count)) {
  }
  return StreamsFitQueues();
}

bool CountOwnStream() noexcept {
  live.fetch_add(1);
  if (StreamsFitQueues()) return true;
  live.fetch_sub(1);
  return false;
}

bool StreamsFitQueues() noexcept {
  return live.load() + helpers.load() + kOwnQueues <= settings.queues;
}

// Beside them the legacy stream. Where there can be no more queues tasks are made as ever.
bool StreamsFitTasks() noexcept {
  return live.load() + 1 <= settings.queues || settings.queues >= kMostHardwareQueues;
}

bool IsBlocking(CUstream stream, bool per_thread) noexcept {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return true;
  using Blocking = ThreadState::Blocking;
  const bool looked_up = this_thread.stream == stream;
  if (looked_up && this_thread.stream_blocking != Blocking::kNotAsked) {
    return this_thread.stream_blocking == Blocking::kYes;
  }
  unsigned flags = 0;
  const auto get = Real<PFN_cuStreamGetFlags_v5050>(per_thread ? Call::k_cuStreamGetFlags_ptsz
                                                               : Call::k_cuStreamGetFlags);
  const bool is_blocking =
      get(stream, &flags) != CUDA_SUCCESS || (flags & CU_STREAM_NON_BLOCKING) == 0;
  if (looked_up) this_thread.stream_blocking = is_blocking ? Blocking::kYes : Blocking::kNo;
  return is_blocking;
}

void ForgetStreamsAfterFork() noexcept { live.store(0); }

}  // namespace cupola::intercept::preempt
