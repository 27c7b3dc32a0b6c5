#include "intercept/record/device_timing.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <pthread.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/streams.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/event_pool.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {

std::atomic<TimingMode> timing_mode{TimingMode::kNone};

namespace {

// The longest time that an exiting program, or a call that ends a context, waits for kernels.
constexpr uint64_t kFlushBoundNs = 500'000'000;
constexpr long kHarvestPauseNs = 500'000;
constexpr long kIdlePauseNs = 20'000'000;  // the longest pause, once nothing is submitted any more
constexpr uint32_t kMostContexts = 64;

// Pools are made once per context and never freed; that of a context that has ended is not used again.
std::atomic<EventPool*> pools[kMostContexts];
std::atomic<uint32_t> pool_count{0};
pthread_mutex_t make_mutex = PTHREAD_MUTEX_INITIALIZER;
// Held while pairs are harvested and while a pool's state changes, but not during the pauses between.
pthread_mutex_t harvest_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> agent_started{false};
LengthSink length_sink = nullptr;  // set once, before the first launch is timed
bool ends_wait = true;             // set with length_sink
constexpr uint32_t kFewPairs = 128;  // of a pool where not each launch is to be timed

// The pool of the context, which need not be alive: while the context may be about to end it gets no other one. Null:
// it has none. The newest counts, since older ones of the same handle belong to contexts that have ended.
EventPool* FindPool(uint64_t context) {
  for (uint32_t i = pool_count.load(std::memory_order_acquire); i-- > 0;) {
    EventPool* pool = pools[i].load(std::memory_order_acquire);
    if (pool->context() == context) return pool->has_ended() ? nullptr : pool;
  }
  return nullptr;
}

void* Agent(void*) {
  // Driver calls of this thread are not the program's: hooks pass them on.
  ++this_thread.depth;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ExchangeCaptureMode(&mode);
  long pause_ns = kHarvestPauseNs;
  for (;;) {
    const timespec pause{0, pause_ns};
    nanosleep(&pause, nullptr);
    const MutexLock lock(harvest_mutex);
    const uint32_t count = pool_count.load(std::memory_order_acquire);
    pause_ns = ends_wait ? kHarvestPauseNs : std::min(2 * pause_ns, kIdlePauseNs);
    for (uint32_t i = 0; i < count; ++i) {
      EventPool* pool = pools[i].load(std::memory_order_acquire);
      if (!pool->is_alive() || pool->is_green()) continue;
      if (pool->HasSubmitted()) pause_ns = kHarvestPauseNs;
      pool->Harvest(/*give_up=*/false);
    }
  }
  return nullptr;
}

bool StartAgent() {
  if (agent_started.exchange(true)) return true;
  const bool started = StartOwnThread(&Agent, nullptr, 256 << 10);
  if (!started) timing_mode.store(TimingMode::kCalls);
  return started;
}

void FlushAtExit() { FlushTimingAtExit(); }

// Makes the pool of a context, at its first launch. BeginTimed does not call it while a capture is
// open: then the launch is untimed.
EventPool* MakePool(uint64_t context, bool is_green) {
  const MutexLock lock(make_mutex);
  if (EventPool* made = FindPool(context)) return made;
  const uint32_t count = pool_count.load(std::memory_order_relaxed);
  if (count == kMostContexts || context == 0) return nullptr;
  // The pool makes its context current. See HarvestGreen for why that is left to threads of the program.
  if (is_green && reinterpret_cast<uint64_t>(CurrentContext()) != context) return nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ExchangeCaptureMode(&mode);
  EventPool* pool = EventPool::Make(context, is_green, ends_wait ? EventPool::kPairs : kFewPairs, length_sink);
  ExchangeCaptureMode(&mode);
  if (pool == nullptr) {
    static std::atomic_flag said;
    SayOnce(said, Level::kWarn, {"no device times: the driver made no events"});
    timing_mode.store(TimingMode::kCalls);
    return nullptr;
  }
  // Registered after the driver's own exit handlers, so it runs before them.
  if (count == 0) atexit(&FlushAtExit);
  pools[count].store(pool, std::memory_order_release);
  pool_count.store(count + 1, std::memory_order_release);
  return StartAgent() ? pool : nullptr;
}

// Harvests the pool of a green context on a thread of the program, from time to time. NVIDIA's driver 580 corrupts the
// heap when a second thread, as Cupola's own would be, makes such a context current while contexts end
// (docs/notes/2026-11-28-green-contexts-and-threads.md).
void HarvestGreen(EventPool& pool) {
  static std::atomic<uint64_t> next_ns{0};
  const uint64_t now_ns = MonotonicNs();
  uint64_t next = next_ns.load(std::memory_order_relaxed);
  if (now_ns < next || !next_ns.compare_exchange_strong(next, now_ns + kHarvestPauseNs)) return;
  if (reinterpret_cast<uint64_t>(CurrentContext()) != pool.context()) return;
  const MutexLock lock(harvest_mutex);
  if (pool.is_alive()) pool.Harvest(/*give_up=*/false);
}

// Waits, for at most kFlushBoundNs, for the launches in the pools that `chosen` accepts; launches
// that have not ended by then stay untimed. The caller is about to end the context or the process.
// `ends`: the contexts of those pools certainly end, and the events and the stream of those pools are destroyed.
template <typename Chosen>
void Flush(bool ends, Chosen&& chosen) {
  const uint32_t count = pool_count.load(std::memory_order_acquire);
  const HookScope scope;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (count != 0) ExchangeCaptureMode(&mode);
  const uint64_t deadline = ends_wait ? MonotonicNs() + kFlushBoundNs : 0;
  for (uint32_t i = 0; i < count; ++i) {
    EventPool* pool = pools[i].load(std::memory_order_acquire);
    if (!pool->is_alive() || !chosen(*pool)) continue;
    for (;;) {
      const bool give_up = MonotonicNs() >= deadline;
      {
        const MutexLock lock(harvest_mutex);
        if (pool->Harvest(give_up) == 0) break;
      }
      if (give_up) break;
      const timespec pause{0, 50'000};
      nanosleep(&pause, nullptr);
    }
    const MutexLock lock(harvest_mutex);
    ends ? pool->End() : pool->Pause();
    pool->Harvest(/*give_up=*/true);  // for a launch that was submitted in between
    if (ends) pool->Destroy();
  }
  if (count != 0) ExchangeCaptureMode(&mode);
}

void FlushPoolOf(CUcontext context, bool ends) {
  if (timing_mode.load() != TimingMode::kEvents) return;
  Flush(ends,
        [&](const EventPool& pool) { return pool.context() == reinterpret_cast<uint64_t>(context); });
}

const char* ProfilerInTheWay() {
  // These variables are set by Nsight Compute and Systems, compute-sanitizer, CUPTI's injection and
  // cuda-gdb; the last one makes launches synchronous. Events around launches would disturb what
  // these tools measure.
  static constexpr const char* kPrefixes[] = {"CUDA_INJECTION64_PATH=", "NV_COMPUTE_PROFILER",
                                              "NV_NSIGHT_", "NSYS_", "NV_SANITIZER_", "CUDBG_",
                                              "CUDA_LAUNCH_BLOCKING=1"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (const char* prefix : kPrefixes) {
      if (strncmp(*entry, prefix, strlen(prefix)) == 0) return prefix;
    }
  }
  return nullptr;
}

}  // namespace

void StartTiming() noexcept {
  const std::string_view asked = settings::Word("CUPOLA_TIMING");
  if (asked == "none") return;
  timing_mode.store(TimingMode::kCalls);
  if (asked != "events") return;
  if (const char* why = ProfilerInTheWay()) {
    Say(Level::kWarn, {"no device times: ", why, " in the environment, a tool is at work"});
    return;
  }
  timing_mode.store(TimingMode::kEvents);
}

bool StartTimingFor(LengthSink sink, bool waits_at_end) noexcept {
  if (ProfilerInTheWay() != nullptr) return false;
  length_sink = sink;
  ends_wait = waits_at_end;
  timing_mode.store(TimingMode::kEvents);
  return true;
}

TimedLaunch BeginTimed(uint64_t context, CUstream stream, bool per_thread) noexcept {
  if (open_captures.load() != 0) return {};
  EventPool* pool = FindPool(context);
  if (pool == nullptr) pool = MakePool(context, IsGreen(stream, {context, 0, 0}));
  if (pool == nullptr || !pool->is_alive()) return {};
  if (pool->is_green()) HarvestGreen(*pool);
  EventPair* pair = pool->Take();
  if (pair == nullptr) return {};
  if (!pool->RecordStart(pair, stream, per_thread)) {
    pool->GiveBack(pair);
    return {};
  }
  return {pool, pair};
}

bool EndTimed(const TimedLaunch& launch, CUstream stream, bool per_thread,
              CUresult result) noexcept {
  if (launch.pair == nullptr) return false;
  const bool captured = open_captures.load() != 0;
  if (captured || result != CUDA_SUCCESS ||
      !launch.pool->RecordEnd(launch.pair, stream, per_thread)) {
    launch.pool->GiveBack(launch.pair);
    return false;
  }
  return true;
}

void SubmitTimed(const TimedLaunch& launch, const uint64_t* ticket) noexcept {
  if (ticket != nullptr) {
    launch.pool->Submit(launch.pair, *ticket);
  } else {
    launch.pool->GiveBack(launch.pair);
  }
}

void FlushTimingOf(CUcontext context) noexcept { FlushPoolOf(context, /*ends=*/false); }
void EndTimingOf(CUcontext context) noexcept { FlushPoolOf(context, /*ends=*/true); }

void ResumeTimingOf(CUcontext context) noexcept {
  const MutexLock lock(harvest_mutex);
  if (EventPool* pool = FindPool(reinterpret_cast<uint64_t>(context))) pool->Revive();
}

void ForgetTimingOf(CUcontext context) noexcept {
  const MutexLock lock(harvest_mutex);
  if (EventPool* pool = FindPool(reinterpret_cast<uint64_t>(context))) pool->End();
}

void FlushTimingAtExit() noexcept {
  TimingMode mode = TimingMode::kEvents;
  if (!timing_mode.compare_exchange_strong(mode, TimingMode::kCalls)) return;
  Flush(/*ends=*/false, [](const EventPool& pool) {
    return !pool.is_green() || reinterpret_cast<uint64_t>(CurrentContext()) == pool.context();
  });
}

void ResetTimingAfterFork() noexcept {
  timing_mode.store(TimingMode::kNone);
  length_sink = nullptr;
  ends_wait = true;
  make_mutex = PTHREAD_MUTEX_INITIALIZER;
  harvest_mutex = PTHREAD_MUTEX_INITIALIZER;
  pool_count.store(0);
  agent_started.store(false);
}

}  // namespace cupola::intercept
