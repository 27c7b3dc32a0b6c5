#include "intercept/facts/live_streams.h"

#include <atomic>

#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {

Event<> streams_share_queues;

namespace {

std::atomic<uint32_t> live{0};
std::atomic<uint32_t> helpers{1};  // helper streams of the context that has most; each has at least one
std::atomic<uint32_t> queues{8};   // 8 is the driver's own number
pthread_mutex_t helpers_mutex = PTHREAD_MUTEX_INITIALIZER;
uint32_t contexts_with[kMostHelperStreams + 1] = {};  // [n]: contexts with n helper streams or more; under helpers_mutex
std::atomic<bool> counts{false};

// Queues kept for the legacy stream, and for what the driver does by itself.
constexpr uint32_t kOwnQueues = 2;

// Sets `helpers` after a change of `contexts_with`.
void FindMostHelpersLocked() {
  uint32_t most = kMostHelperStreams;
  while (most > 1 && contexts_with[most] == 0) --most;
  helpers.store(most);
}

}  // namespace

void StartCountingStreams(uint32_t hardware_queues) noexcept {
  queues.store(hardware_queues);
  counts.store(true);
}

uint32_t HardwareQueues() noexcept { return queues.load(std::memory_order_relaxed); }

// The stream is counted before the subscribers wait, so that they begin nothing new after that.
void CountStream() noexcept {
  if (!counts.load(std::memory_order_relaxed)) return;
  live.fetch_add(1);
  // plant: no_queue_count
  if (!StreamsFitQueues()) {
    RaiseLaunchEpoch();
    streams_share_queues.Announce();
  }
  // end plant: no_queue_count
}

void UncountStream() noexcept {
  uint32_t now = live.load(std::memory_order_relaxed);
  while (now != 0 && !live.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
  }
}

// The helper stream is counted before the check, as streams of the program are. So of two streams
// that come at once it may be that neither fits, but never that both are let in wrongly.
bool MakeRoomForHelper(uint32_t count) noexcept {
  if (live.load() + count + kOwnQueues > queues.load()) return false;
  const MutexLock lock(helpers_mutex);
  ++contexts_with[count];
  FindMostHelpersLocked();
  if (StreamsFitQueues()) return true;
  --contexts_with[count];
  FindMostHelpersLocked();
  return false;
}

void DropHelper(uint32_t count) noexcept {
  const MutexLock lock(helpers_mutex);
  --contexts_with[count];
  FindMostHelpersLocked();
}

bool CountOwnStream() noexcept {
  live.fetch_add(1);
  if (StreamsFitQueues()) return true;
  live.fetch_sub(1);
  return false;
}

bool StreamsFitQueues() noexcept { return live.load() + helpers.load() + kOwnQueues <= queues.load(); }

// The 1 is for the legacy stream. With the most queues that there can be, tasks are made in any case.
bool StreamsFitTasks() noexcept { return live.load() + 1 <= queues.load() || queues.load() >= kMostHardwareQueues; }

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

void ForgetLiveStreamsAfterFork() noexcept {
  helpers_mutex = PTHREAD_MUTEX_INITIALIZER;
  for (uint32_t& contexts : contexts_with) contexts = 0;
  helpers.store(1);
  live.store(0);
}

}  // namespace cupola::intercept
