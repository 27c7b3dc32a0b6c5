#include "intercept/tasks/waiting_kernels.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/tasks.h"
#include "profiles/launch_record.h"

namespace cupola::intercept::tasks {
namespace internal {

std::atomic<uint32_t> waiting_kernels{0};  // entries that are in use
std::atomic<uint32_t> waiting_calls{0};    // threads between BeginDriverWait and EndDriverWait

}  // namespace internal

namespace {

// A kernel that is ready may wait for this long until the MasterKernel is asked to leave. Leaving
// and coming back takes a MasterKernel some 50 us [measured: docs/results/narrow-tasks.md].
constexpr uint64_t kEveryNs = 1'000'000;
// Only its own thread can query the driver about a per-thread default stream, so its kernels count
// as waiting for this long.
constexpr uint64_t kUnnamedNs = 100'000'000;

constexpr size_t kMostWaitingStreams = 32;

// A stream into which kernels were launched.
struct Entry {
  const TaskEngine* engine = nullptr;  // of its context; null: free
  CUstream stream = nullptr;           // CU_STREAM_LEGACY; CU_STREAM_PER_THREAD of any thread
  uint64_t until_ns = 0;               // for CU_STREAM_PER_THREAD: until then it may wait
};

pthread_mutex_t waiting_kernels_mutex = PTHREAD_MUTEX_INITIALIZER;
Entry entries[kMostWaitingStreams];  // under the mutex
size_t oldest = 0;            // the entry to be replaced when none is free
std::atomic<uint64_t> next_look_ns{0};

std::atomic<uint64_t> calls_wait_since_ns{0};  // since then at least one call has been waiting
thread_local constinit bool waits_in_driver __attribute__((tls_model("initial-exec"))) = false;

// Whether calls have been waiting for more than kEveryNs. Most calls are over sooner, and a
// MasterKernel that gets no tasks leaves by itself.
bool CallsWaitLong(uint64_t now) {
  return internal::waiting_calls.load(std::memory_order_relaxed) != 0 &&
         now > calls_wait_since_ns.load(std::memory_order_relaxed) + kEveryNs;
}

void Free(Entry& entry) {
  entry = {};
  internal::waiting_kernels.fetch_sub(1, std::memory_order_relaxed);
}

// Whether the entry's stream may have a kernel that has not begun. The legacy stream can be queried
// only while its context is current.
bool MayWait(const Entry& entry, uint64_t now) {
  if (!entry.engine->IsReady()) return false;
  if (entry.stream == CU_STREAM_PER_THREAD) return now < entry.until_ns;
  if (entry.stream == CU_STREAM_LEGACY && CurrentContext() != entry.engine->context()) return true;
  Count(task_counters.queries);
  return AskStream(entry.stream) == CUDA_ERROR_NOT_READY;
}

}  // namespace

TaskEngine* RecordPendingKernel(CUstream stream, bool per_thread) noexcept {
  const StreamKey key = ResolveStream(stream, per_thread);
  TaskEngine* const engine = EngineOf(key.context);
  if (engine == nullptr) return nullptr;
  if ((key.flags & kFlagLegacyStream) != 0) stream = CU_STREAM_LEGACY;
  const bool is_own = (key.flags & kFlagPerThreadStream) != 0;
  if (is_own) stream = CU_STREAM_PER_THREAD;
  const MutexLock lock(waiting_kernels_mutex);
  if (!engine->IsReady()) return nullptr;
  const auto is_it = [&](const Entry& each) {
    return each.engine == engine && each.stream == stream;
  };
  Entry* entry = std::ranges::find_if(entries, is_it);
  if (entry == std::end(entries)) {
    entry = std::ranges::find(entries, nullptr, &Entry::engine);
    // A program with kernels in more streams at once loses the entry that was made first.
    if (entry == std::end(entries)) Free(*(entry = &entries[oldest++ % kMostWaitingStreams]));
    *entry = {.engine = engine, .stream = stream};
    internal::waiting_kernels.fetch_add(1, std::memory_order_relaxed);
  }
  if (is_own) entry->until_ns = NowNs() + kUnnamedNs;
  return engine;
}

void ForgetKernels(CUstream stream) noexcept {
  if (internal::waiting_kernels.load() == 0) return;
  const MutexLock lock(waiting_kernels_mutex);
  for (Entry& each : entries) {
    if (each.engine != nullptr && each.stream == stream) Free(each);
  }
}

void ForgetKernelsOf(const TaskEngine& engine) noexcept {
  if (internal::waiting_kernels.load() == 0) return;
  const MutexLock lock(waiting_kernels_mutex);
  for (Entry& each : entries) {
    if (each.engine == &engine) Free(each);
  }
}

void BeginDriverWait() noexcept {
  if (std::exchange(waits_in_driver, true)) return;
  if (internal::waiting_calls.fetch_add(1) == 0) {
    calls_wait_since_ns.store(NowNs(), std::memory_order_relaxed);
  }
}

void EndDriverWait() noexcept {
  if (std::exchange(waits_in_driver, false)) internal::waiting_calls.fetch_sub(1);
}

void internal::MakeWay(TaskEngine& engine) noexcept {
  const uint64_t now = NowNs();
  if (now < next_look_ns.load(std::memory_order_relaxed)) return;
  if (pthread_mutex_trylock(&waiting_kernels_mutex) != 0) return;
  bool waits = CallsWaitLong(now);
  for (Entry& each : entries) {
    if (each.engine == nullptr) continue;
    if (!MayWait(each, now)) {
      Free(each);
    } else {
      waits |= each.engine == &engine;
    }
  }
  next_look_ns.store(NowNs() + kEveryNs, std::memory_order_relaxed);
  pthread_mutex_unlock(&waiting_kernels_mutex);
  if (waits) engine.AskToLeave();
}

}  // namespace cupola::intercept::tasks
