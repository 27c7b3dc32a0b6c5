#include "intercept/tasks/task_streams.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <span>

#include "intercept/facts/live_streams.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/tasks/driver_work.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_times.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"
#include "intercept/tasks/waiting_kernels.h"
#include "profiles/launch_record.h"

namespace cupola::intercept::tasks {
namespace {

constexpr uint32_t kMostStreams = 4096;
// The driver work of a stream is often nearly over. Then a short wait for it costs less than one
// more plain launch, for which the next launch would have to wait in turn. A wait in vain costs 1 %
// at most, since a launch takes 5 us and the driver is queried more and more rarely (kMostBackoff).
constexpr uint64_t kPatienceNs = 40'000;
constexpr uint32_t kMostBackoff = 1024;  // launches between queries, at most

// Held while an entry of `all` is added or given to another stream or engine, and while a stream is
// forgotten. Readers of `all` do not take it: entries are never destroyed, and `count` grows only
// after the pointer to a new entry was written.
pthread_mutex_t streams_mutex = PTHREAD_MUTEX_INITIALIZER;
HandleMap by_handle;  // CUstream -> StreamTasks*, for streams that are no default streams
StreamTasks* all[kMostStreams];
std::atomic<uint32_t> count{0};                  // entries of `all`, free ones included
std::atomic<StreamTasks*> legacy[kMostEngines];  // by TaskEngine::index; null: it has had no task
// Streams that the program made, and per-thread default streams that it used.
std::atomic<uint32_t> made{0};

// The entries so far, free ones included.
std::span<StreamTasks* const> Entries() { return {all, count.load()}; }

// Whether the driver says that all work of the stream is over.
bool IsOver(CUstream stream) {
  Count(task_counters.queries);
  return AskStream(stream) == CUDA_SUCCESS;
}

// Whether the stream's task `last` has yet to run. Tasks of an engine that is dead or whose context
// has ended do not count.
bool IsOutstanding(const StreamTasks& stream, const runtime::TaskId& last) {
  const TaskEngine* const engine = stream.engine.load();
  return last.sequence != 0 && engine->IsReady() && !engine->IsDone(last);
}
bool IsOutstanding(const StreamTasks& stream) { return IsOutstanding(stream, stream.LastPut()); }

// Whether the entry may be given to another stream: it has no stream, or it is that of a per-thread
// default stream whose thread has ended and whose tasks have run.
bool IsFree(StreamTasks& stream) {
  if (stream.stream != CU_STREAM_PER_THREAD) return stream.stream == nullptr;
  const StreamLock lock(stream);
  return stream.owner.load() == nullptr && !IsOutstanding(stream);
}

// Gives the entry to a stream. If that is of the same engine as the entry's last stream, `last`
// stays: the new stream's tasks go into the same column, behind those. The caller holds the mutex.
void Begin(StreamTasks* entry, TaskEngine& engine, CUstream stream) {
  const StreamLock lock(*entry);
  entry->is_blocking = IsBlocking(stream, false);
  entry->clean_at = 0;
  entry->skip = 0;
  entry->backoff = 1;
  if (entry->engine.load() != &engine) {
    entry->last = entry->flushed = {};
    entry->put.store(0);
  }
  entry->engine.store(&engine);
  entry->stream = stream;
}

// Gives the stream a free entry, or a new one. Null: there are kMostStreams, or no memory. The caller
// holds the mutex.
StreamTasks* AddLocked(TaskEngine& engine, CUstream stream) {
  const auto known = Entries();
  const auto free = std::ranges::find_if(known, [](StreamTasks* each) { return IsFree(*each); });
  StreamTasks* added = free != known.end() ? *free : nullptr;
  if (added == nullptr) {
    if (known.size() == kMostStreams) return nullptr;
    added = new (std::nothrow) StreamTasks;
    if (added == nullptr) return nullptr;
    added->number = static_cast<uint32_t>(known.size());
    all[added->number] = added;
    count.store(added->number + 1);
  }
  Begin(added, engine, stream);
  return added;
}

StreamTasks* Add(TaskEngine& engine, CUstream stream) {
  const MutexLock lock(streams_mutex);
  if (stream == CU_STREAM_LEGACY) {
    std::atomic<StreamTasks*>& known = legacy[engine.index()];
    if (known.load() == nullptr) known.store(AddLocked(engine, stream));
    return known.load();
  }
  if (auto* const found = reinterpret_cast<StreamTasks*>(by_handle.Find(stream, 0))) {
    // A stream of a context that has ended had the same handle.
    if (found->engine.load() != &engine) Begin(found, engine, stream);
    return found;
  }
  StreamTasks* const added = AddLocked(engine, stream);
  if (added != nullptr) by_handle.Set(stream, reinterpret_cast<uint64_t>(added));
  return added;
}

// This thread's per-thread default stream; null until it has tasks. No other thread can name that
// stream in a driver call, so others wait for its tasks on the host. The address of `own` stands for
// the thread (StreamTasks::owner).
struct Own {
  StreamTasks* stream;
};
thread_local constinit Own own __attribute__((tls_model("initial-exec"))) = {};

// Runs when a thread that had such a stream ends. If a later destructor of the thread launches
// again, the thread takes a stream again, and this function runs again.
void EndOwn(void*) {
  if (own.stream != nullptr) own.stream->owner.store(nullptr);
  own.stream = nullptr;
}

// Has EndOwn run when this thread ends. If no pthread key can be had, the stream's entry is never
// given to another stream.
void EndOwnWithThread() {
  static const pthread_key_t key = [] {
    pthread_key_t created = 0;
    return pthread_key_create(&created, &EndOwn) == 0 ? created : ~pthread_key_t{0};
  }();
  pthread_setspecific(key, &own);
}

// The entry of this thread's default stream. A thread's default stream has tasks only in the first
// context in which it has any, as long as that context exists; null in another one.
StreamTasks* AddOwn(TaskEngine& engine) {
  if (own.stream != nullptr && own.stream->engine.load()->IsReady()) return nullptr;
  CountProgramStream();
  const MutexLock lock(streams_mutex);
  if (own.stream != nullptr) own.stream->owner.store(nullptr);
  StreamTasks* const added = AddLocked(engine, CU_STREAM_PER_THREAD);
  if (added != nullptr) {
    added->owner.store(&own);
    EndOwnWithThread();
  }
  return own.stream = added;
}

// Whether this thread can name the stream in a driver call: default streams mean those of the
// current context, and a per-thread one that of the calling thread.
bool IsNamedHere(const StreamTasks& stream) {
  if (stream.stream != CU_STREAM_PER_THREAD && stream.stream != CU_STREAM_LEGACY) return true;
  const bool is_of_another = stream.stream == CU_STREAM_PER_THREAD && stream.owner.load() != &own;
  return !is_of_another && CurrentContext() == stream.engine.load()->context();
}

// The stream's entry. Null: none of its launches was a task of this engine.
StreamTasks* Known(const TaskEngine& engine, CUstream stream, const StreamKey& key) {
  StreamTasks* known = nullptr;
  if ((key.flags & kFlagPerThreadStream) != 0) {
    known = own.stream;
  } else if ((key.flags & kFlagLegacyStream) != 0) {
    known = legacy[engine.index()].load(std::memory_order_acquire);
  } else {
    known = reinterpret_cast<StreamTasks*>(by_handle.Find(stream, 0));
  }
  return known != nullptr && known->engine.load() == &engine ? known : nullptr;
}
StreamTasks* Known(CUstream stream, const StreamKey& key) {
  const TaskEngine* const engine = EngineOf(key.context);
  return engine != nullptr ? Known(*engine, stream, key) : nullptr;
}

// A stream with outstanding tasks that come before what `stream` is given now; null: there is none.
const StreamTasks* FirstBefore(const TaskEngine& engine, CUstream stream, const StreamKey& key) {
  const StreamTasks* const known = Known(engine, stream, key);
  if (known != nullptr && IsOutstanding(*known)) return known;
  if ((key.flags & kFlagLegacyStream) == 0) return nullptr;
  for (const StreamTasks* each : Entries()) {
    const bool is_before = each->engine.load() == &engine && each->is_blocking.load();
    if (is_before && IsOutstanding(*each)) return each;
  }
  return nullptr;
}

// The sum of all counts of driver work that may come before a task of the stream
// (StreamTasks::clean_at).
uint64_t WorkSeenBy(const StreamTasks& stream) {
  return stream.work.load(std::memory_order_acquire) +
         unknown_work.load(std::memory_order_acquire) +
         (stream.is_blocking ? legacy_work.load(std::memory_order_acquire) : 0);
}

// Makes `stream` wait for a task before what it is given from now on. False: the driver refused.
bool MakeWait(CUstream stream, TaskEngine& engine, const runtime::TaskId& last) {
  engine.MakeSureOf();
  const RelaxedCapture relaxed;
  const auto wait = CUPOLA_CALL_REAL(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070);
  Count(task_counters.flushes);
  const auto word = static_cast<cuuint32_t>(last.sequence);
  return wait(stream, engine.DoneAddress(last), word, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
}

// Puts what the stream is given from now on behind its tasks. If this thread cannot name the stream
// it waits for the tasks on the host. `behind`: the stream whose work is to come after the tasks; if
// the wait on the host is stuck, that stream is made to wait for them instead. If it is null, the
// wait on the host does not end before the tasks have run.
void Flush(StreamTasks& stream, CUstream behind) {
  const StreamLock lock(stream);
  if (stream.stream == nullptr || !IsOutstanding(stream)) return;
  if (stream.flushed.sequence == stream.last.sequence) return;
  TaskEngine& engine = *stream.engine.load();
  if (!IsNamedHere(stream)) {
    Count(task_counters.waits);
    const bool is_over =
        engine.WaitFor(stream.last, behind != nullptr ? Until::kOverOrStuck : Until::kOver);
    if (!is_over && !MakeWait(behind, engine, stream.last)) engine.WaitFor(stream.last);
    return;
  }
  if (MakeWait(stream.stream, engine, stream.last)) {
    stream.flushed = stream.last;
  } else {
    engine.WaitFor(stream.last);
  }
}

// Waits for a task of a stream, and so for all before it. From how long that took, it reports how
// long tasks take (task_times.h). False: stuck.
bool AwaitTask(TaskEngine& engine, StreamTasks& stream, runtime::TaskId last, Until until) {
  const bool spreads = stream.spreads;
  const uint64_t before = stream.waited_for.exchange(last.sequence, std::memory_order_relaxed);
  const uint32_t left = engine.CountLeft(last);
  const uint64_t since = NowNs();
  if (!engine.WaitFor(last, until)) return false;
  const uint64_t ns = NowNs() - since;
  if (before + 1 == last.sequence && ns <= TaskWorth::kWaitedForNs) {
    MeasureShortWait(ns);
  } else {
    MeasureWait(engine, spreads, left, ns);
  }
  return true;
}

// Waits for the tasks of the engine's streams, one stream after the other, and at last for all tasks
// that are in its table. With `being_put` it waits for the lock of each stream, so that it sees the
// tasks that other threads are just putting in; without, it passes over a stream whose lock is
// taken. False: stuck.
bool WaitForTasks(TaskEngine& engine, bool being_put, Until until) {
  for (StreamTasks* const stream : Entries()) {
    if (stream->engine.load() != &engine) continue;
    if (being_put) {
      stream->Take();
    } else if (!stream->TryTake()) {
      continue;
    }
    const runtime::TaskId last = stream->last;
    const bool is_outstanding = stream->engine.load() == &engine && IsOutstanding(*stream);
    stream->Give();
    if (is_outstanding && !AwaitTask(engine, *stream, last, until)) return false;
  }
  return engine.WaitForAll(until);
}

// Flushes all streams for which `wanted` is true; `behind` is as in Flush.
template <typename Wanted>
void FlushAll(CUstream behind, Wanted&& wanted) {
  for (StreamTasks* const each : Entries()) {
    if (wanted(*each)) Flush(*each, behind);
  }
}

}  // namespace

void PrefetchFor(const StreamTasks& stream, const TaskEngine& engine) noexcept {
  engine.Prefetch(stream.number % engine.columns());
}

// Since the stream's last task, the engine may have turned to another module with another number of
// columns, and the stream's column may be another one. Then the tasks in the former column have run
// (TaskEngine::TurnTo), and the new one has none that this stream's next task must come behind.
bool PutInto(StreamTasks& stream, runtime::TaskWords* words) noexcept {
  TaskEngine& engine = *stream.engine.load();
  MakeWay(engine);
  const uint32_t column = stream.number % engine.columns();
  if (stream.last.column != column) stream.last = stream.flushed = {.column = column};
  bool was_full = false;
  const bool is_in = engine.Put(column, words, &stream.last, &was_full);
  stream.PublishLastPut();
  if (was_full && is_in) MeasureFullColumn(stream, engine);
  return is_in;
}

StreamUse CountUse(const TaskEngine& engine, bool from_now_on) noexcept {
  StreamUse use;
  for (StreamTasks* const stream : Entries()) {
    if (stream->engine.load(std::memory_order_relaxed) != &engine) continue;
    const uint64_t put = stream->LastPut().sequence;
    if (put == 0 || put == stream->counted) continue;
    ++use.streams;
    use.tasks += static_cast<uint32_t>(
        std::min<uint64_t>(put - stream->counted, runtime::kTaskRows));
    if (from_now_on) stream->counted = put;
  }
  return use;
}

bool WaitForAllTasks(bool being_put) noexcept {
  Count(task_counters.waits);
  bool is_over = true;
  ForEachReadyEngine([&](TaskEngine& engine) {
    is_over = is_over && WaitForTasks(engine, being_put, Until::kOverOrStuck);
  });
  return is_over;
}

void FlushStuck() noexcept {
  ForEachReadyEngine([](TaskEngine& engine) { engine.MakeSureOf(); });
  for (StreamTasks* const stream : Entries()) {
    const bool has_engine = stream->engine.load() != nullptr && stream->engine.load()->IsReady();
    if (has_engine && IsNamedHere(*stream)) {
      Flush(*stream, nullptr);
    } else {
      const StreamLock been_free(*stream);
    }
  }
}

// A stream may be forgotten while the locks are held, but it changes its engine only under the
// mutex.
AllStreams::AllStreams(const TaskEngine& engine) noexcept : engine_(engine) {
  pthread_mutex_lock(&streams_mutex);
  for (StreamTasks* const each : Entries()) {
    if (each->engine.load() == &engine_) each->Take();
  }
}

AllStreams::~AllStreams() {
  for (StreamTasks* const each : Entries()) {
    if (each->engine.load() == &engine_) each->Give();
  }
  pthread_mutex_unlock(&streams_mutex);
}

StreamTasks* FindStream(TaskEngine& engine, CUstream stream, const StreamKey& key) noexcept {
  const bool is_legacy = (key.flags & kFlagLegacyStream) != 0;
  if (is_legacy && made.load(std::memory_order_relaxed) != 0) return nullptr;
  if (StreamTasks* const known = Known(engine, stream, key)) return known;
  if ((key.flags & kFlagPerThreadStream) != 0) return AddOwn(engine);
  return Add(engine, is_legacy ? CU_STREAM_LEGACY : stream);
}

// The driver is queried after the count was read, so its answer is at least as new as that count.
// While tasks do not pay (TaskWorth::IsQuiet), driver work is not counted (task_launch.h), so no
// stream counts as clean.
bool IsClean(StreamTasks& stream) noexcept {
  if (worth.IsQuiet()) return false;
  const uint64_t now = WorkSeenBy(stream);
  if (stream.clean_at == now) return true;
  if (stream.skip != 0) {
    --stream.skip;
    return false;
  }
  const uint64_t since = NowNs();
  do {
    if (IsOver(stream.stream) && (!stream.is_blocking || IsOver(CU_STREAM_LEGACY))) {
      stream.clean_at = now;
      stream.backoff = 1;
      return true;
    }
  } while (NowNs() - since < kPatienceNs);
  stream.skip = stream.backoff;
  stream.backoff = std::min(2 * stream.backoff, kMostBackoff);
  return false;
}

void CountThreadsOwnStream() noexcept {
  static std::atomic<bool> noted{false};
  if (noted.load(std::memory_order_acquire)) return;
  CountProgramStream();
  noted.store(true, std::memory_order_release);
}

void BeforeWorkOf(CUstream stream, bool per_thread) noexcept {
  CountIfOwnStream(stream, per_thread);
  const StreamKey key = ResolveStream(stream, per_thread);
  const TaskEngine* const engine = EngineOf(key.context);
  if (engine == nullptr) return;
  if ((key.flags & kFlagLegacyStream) != 0) {
    return FlushAll(CU_STREAM_LEGACY,
                    [&](const StreamTasks& each) { return each.engine.load() == engine; });
  }
  if (StreamTasks* const known = Known(*engine, stream, key)) Flush(*known, nullptr);
}

// No count of its own is kept for a stream that has no entry even after the call: its `clean_at` will
// be 0 when it gets one, so the driver is queried about it before its first task.
void AfterWorkOf(CUstream stream, bool per_thread) noexcept {
  const StreamKey key = ResolveStream(stream, per_thread);
  if ((key.flags & kFlagLegacyStream) != 0) {
    legacy_work.fetch_add(1, std::memory_order_release);
    return;
  }
  StreamTasks* const known = Known(stream, key);
  if (known != nullptr) known->work.fetch_add(1, std::memory_order_release);
  if (known == nullptr || !known->is_blocking) other_work.fetch_add(1, std::memory_order_release);
}

void BeforeWork() noexcept {
  FlushAll(nullptr, [](const StreamTasks&) { return true; });
}

bool WaitForStream(CUstream stream, bool per_thread, Until until) noexcept {
  // The legacy stream comes after all other streams, so its case waits for the tasks of all.
  const StreamKey key = ResolveStream(stream, per_thread);
  TaskEngine* const engine = EngineOf(key.context);
  if (engine == nullptr || !engine->IsReady()) return true;
  if ((key.flags & kFlagLegacyStream) != 0) {
    return WaitForTasks(*engine, /*being_put=*/false, until);
  }
  StreamTasks* const known = Known(*engine, stream, key);
  if (known == nullptr) return true;
  const runtime::TaskId last = known->LastPut();
  if (!IsOutstanding(*known, last)) return true;
  Count(task_counters.waits);
  return AwaitTask(*engine, *known, last, until);
}

void WaitForContext(TaskEngine& engine) noexcept {
  (void)WaitForTasks(engine, /*being_put=*/false, Until::kOver);
}

bool HasTasks(CUstream stream, bool per_thread) noexcept {
  const StreamKey key = ResolveStream(stream, per_thread);
  TaskEngine* const engine = EngineOf(key.context);
  if (engine == nullptr) return false;
  const StreamTasks* const before = FirstBefore(*engine, stream, key);
  if (before == nullptr) return false;
  thread_local uint32_t asked = 0;
  if (++asked % TaskWatch::kLookEvery == 0) engine->LookAt(before->LastPut().column);
  return engine->GoesOn();
}

bool LookAtNextStream(uint32_t* number) noexcept {
  const auto known = Entries();
  for (size_t i = 0; i < known.size(); ++i) {
    StreamTasks& stream = *known[(*number)++ % known.size()];
    if (!stream.TryTake()) return true;  // a task is being put in
    const uint32_t column = stream.last.column;
    TaskEngine* const engine = stream.engine.load();
    const bool is_outstanding = engine != nullptr && IsOutstanding(stream);
    stream.Give();
    if (!is_outstanding) continue;
    engine->LookAt(column);
    return true;
  }
  return false;
}

// From now on launches into the legacy stream are plain, so the tasks that it has are waited for.
void CountProgramStream() noexcept {
  made.fetch_add(1);
  for (const std::atomic<StreamTasks*>& each : legacy) {
    StreamTasks* const known = each.load(std::memory_order_acquire);
    if (known == nullptr) continue;
    const runtime::TaskId last = known->LastPut();
    if (!IsOutstanding(*known, last)) continue;
    if (known->engine.load()->WaitFor(last, Until::kOverOrStuck)) continue;
    Flush(*known, nullptr);  // then blocking streams come behind the legacy stream's tasks
  }
}

uint32_t StreamsSoFar() noexcept { return made.load(std::memory_order_relaxed) + 1; }

void ForgetStream(CUstream stream) noexcept {
  ForgetKernels(stream);
  const MutexLock lock(streams_mutex);
  auto* const known = reinterpret_cast<StreamTasks*>(by_handle.Find(stream, 0));
  if (known == nullptr) return;
  by_handle.Erase(stream);
  const StreamLock held(*known);
  known->stream = nullptr;
}

}  // namespace cupola::intercept::tasks
