#include "intercept/facts/live_streams.h"

#include <atomic>

#include "intercept/process/driver_calls.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {

Event<> streams_share_queues;

namespace {

std::atomic<uint32_t> live{0};
std::atomic<uint32_t> helpers{1};  // of the context that has most; each has one
std::atomic<uint32_t> queues{8};   // of a driver that nobody has told otherwise
std::atomic<bool> counts{false};

// The legacy stream, and one for what the driver does by itself.
constexpr uint32_t kOwnQueues = 2;

}  // namespace

void StartCountingStreams(uint32_t hardware_queues) noexcept {
  queues.store(hardware_queues);
  counts.store(true);
}

uint32_t HardwareQueues() noexcept { return queues.load(std::memory_order_relaxed); }

// The stream counts from before its subscribers wait, so that none of them begins anything new after that.
void CountStream() noexcept {
  if (!counts.load(std::memory_order_relaxed)) return;
  live.fetch_add(1);
  if (!StreamsFitQueues()) streams_share_queues.Announce();
}

void UncountStream() noexcept {
  uint32_t now = live.load(std::memory_order_relaxed);
  while (now != 0 && !live.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
  }
}

// It counts from before the look, as streams of the program do: of two that come at once neither
// may fit, but not both.
bool MakeRoomForHelper(uint32_t count) noexcept {
  if (live.load() + count + kOwnQueues > queues.load()) return false;
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

bool StreamsFitQueues() noexcept { return live.load() + helpers.load() + kOwnQueues <= queues.load(); }

// Beside them the legacy stream. Where there can be no more queues tasks are made as ever.
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

void ForgetLiveStreamsAfterFork() noexcept { live.store(0); }

}  // namespace cupola::intercept
