#include "intercept/path/graph_feeder.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <list>

#include <pthread.h>

#include "intercept/facts/live_streams.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/agent_context.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {
namespace {

// At most so many pieces are in the driver's queue, which is work for milliseconds. Where it is kept full the driver waits for
// room again and again, though it takes as many pieces at once: the feeder then took half of a processor, and stops came late.
constexpr uint32_t kMostFed = 40;
// The next ones follow when those that are left are work for this time, but not while more than kMostReserve are left, and
// always when no more than kLeastReserve are. Many at a time, since a thread that has slept takes twice as long for each of
// eight pieces as for each of 32. The pieces of the next launch follow by the same rule: while they are put behind the wait for
// the program's stream, with much left before it, another process that takes turns with this one on the GPU is answered late,
// p99 of a server 3.5 ms in place of 2.1 [docs/notes/2026-11-29-what-pieces-of-graphs-cost.md].
constexpr uint64_t kReserveNs = 1'500'000;
constexpr uint32_t kLeastReserve = 8, kMostReserve = 24;
// So much work is deferred at a time: a call that may wait, such as one that allocates memory, waits for it.
constexpr uint64_t kMostPendingNs = 500'000'000;
// Between two looks whether there is room: until as many pieces have ended as must, by their usual time, but no longer than
// half of all that are left are expected to take, nor shorter than this. Each look costs 25 us of a processor's time (H200).
constexpr uint64_t kLookNs = 250'000;
constexpr size_t kStackBytes = 256 << 10;

/// A deferred launch.
struct Job {
  PieceRow row;
  uint32_t number;        ///< what the program's stream waits for: PieceQueue::deferred when it was deferred
  uint64_t queued_total;  ///< LaunchContext::queued behind its entries in the program's stream
  uint32_t event;         ///< index of the event that is before them (PieceQueue::events)
  bool has_begun = false; ///< the feed stream waits for the event
};

// Held by the feeder while it makes driver calls, and by whoever ends a context; also guards `jobs`.
pthread_mutex_t feed_mutex = PTHREAD_MUTEX_INITIALIZER;
std::list<Job>* jobs = nullptr;

// Guards `arrived`; never held over a driver call.
pthread_mutex_t arrived_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t has_arrived = PTHREAD_COND_INITIALIZER;
std::list<Job>* arrived = nullptr;  // jobs that the feeder has not seen yet
std::atomic<bool> has_feeder{false};
std::atomic<bool> at_exit{false};

void FreeEvent(PieceQueue& queue, uint32_t event) { queue.free_events.fetch_or(uint64_t{1} << event); }

// The index of an event that is not in use. False: there is none.
bool TakeEvent(PieceQueue& queue, uint32_t* event) {
  uint64_t free = queue.free_events.load();
  while (free != 0) {
    *event = static_cast<uint32_t>(__builtin_ctzll(free));
    if (queue.free_events.compare_exchange_weak(free, free & (free - 1))) return true;
  }
  return false;
}

// Nothing is left to be done for the job, or nothing can be done any more.
void EndJob(Job& job) {
  LaunchContext& context = job.row.context();
  job.row.End();
  if (!job.has_begun) FreeEvent(context.pieces, job.event);
  context.pieces.pending_ns.fetch_sub(job.row.set().expected_ns);
  job.row.set().users.fetch_sub(1);
  context.pieces.fed.fetch_add(1);
  context.outstanding.fetch_sub(1);
  Unwatch(1);
  // The program's stream goes on without us from here.
  if (preempt::NoneIsGuarded(context)) context.queued.MarkGone(job.queued_total);
}

// Whether the context is beyond repair: each of its calls returns the same error.
bool IsBroken(LaunchContext& context) {
  if (context.state.load() == LaunchContext::State::kDead) return true;
  const CUresult result = AskStream(context.pieces.feed_stream);
  return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

bool WriteDeferred(const PieceQueue& queue, uint32_t number) {
  return StreamWritesWord(queue.feed_stream, /*per_thread=*/false, queue.deferred_word(), number) == CUDA_SUCCESS;
}

// The feed stream waits for what is before the launch in the program's stream.
bool Begin(Job& job) {
  PieceQueue& queue = job.row.context().pieces;
  const auto follow = CUPOLA_CALL_REAL(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020);
  job.has_begun = follow(queue.feed_stream, queue.events[job.event], 0) == CUDA_SUCCESS;  // plant: fed_ahead
  if (job.has_begun) FreeEvent(queue, job.event);
  return job.has_begun;
}

enum class Step : uint8_t {
  kNothing,  ///< there was no room
  kSome,
  kOver,     ///< the job has ended
};

// How long the last `count` of the pieces that were put in are expected to take. Those before the job's own are taken to be
// of another launch of the same graph.
uint64_t ExpectedNs(const Job& job, uint32_t count) {
  const std::vector<graphs::PieceRange>& ranges = job.row.set().ranges;
  uint64_t ns = 0;
  for (size_t place = job.row.next() + ranges.size(); count != 0; --count) ns += ranges[--place % ranges.size()].ns;
  return ns;
}

// How long it is expected to take until the job's next pieces are to be put in, where `left` are left; 0 = it is time.
uint64_t TimeToFeedNs(const Job& job, uint32_t left) {
  if (left <= kLeastReserve) return 0;
  const uint64_t all_ns = ExpectedNs(job, std::min(left, kMostFed));
  const uint64_t by_time = all_ns > kReserveNs ? all_ns - kReserveNs : 0;
  if (left <= kMostReserve) return by_time;
  return std::max({by_time, all_ns - ExpectedNs(job, kMostReserve), uint64_t{1}});
}

// Puts the job's next pieces into the feed stream.
Step Feed(Job& job) {
  LaunchContext& context = job.row.context();
  if (context.state.load() == LaunchContext::State::kDead) return EndJob(job), Step::kOver;
  const uint32_t left = context.pieces.left();
  if (TimeToFeedNs(job, left) != 0) return Step::kNothing;
  // Not one by one: each time costs a write, which takes as much room as a piece does.
  const uint32_t least = std::min(PieceRow::kPiecesAWrite, job.row.left());
  const uint32_t fitting = left == 0 ? std::max(job.row.Fitting(), least) : job.row.Fitting();
  if (fitting < least) return Step::kNothing;
  const uint32_t wanted = std::min({(kMostFed - left) / least * least, fitting / least * least, job.row.left()});
  if (TakeContext(context.context) != CUDA_SUCCESS) return EndJob(job), Step::kOver;
  CUresult result = CUDA_ERROR_UNKNOWN;
  if (job.has_begun || Begin(job)) {
    result = job.row.Put(context.pieces.feed_stream, /*per_thread=*/false, wanted);
  }
  if (result == CUDA_SUCCESS && !job.row.is_over()) return Step::kSome;
  const bool is_over = result == CUDA_SUCCESS && WriteDeferred(context.pieces, job.number);
  if (is_over || IsBroken(context)) return EndJob(job), Step::kOver;
  // The launch call has returned, so the program cannot be told.
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"the driver refuses a piece of a graph, and is asked again: error ", Decimal(result)});
  return Step::kNothing;
}

// Feeds the first job of each context. Returns whether something was put into a stream.
bool FeedAll() {
  const MutexLock lock(feed_mutex);
  if (at_exit.load() || jobs == nullptr) return false;
  bool has_fed = false;
  for (auto job = jobs->begin(); job != jobs->end();) {
    bool is_first = true;
    for (auto before = jobs->begin(); before != job; ++before) is_first &= &before->row.context() != &job->row.context();
    const Step step = is_first ? Feed(*job) : Step::kNothing;
    has_fed |= step != Step::kNothing;
    job = step == Step::kOver ? jobs->erase(job) : std::next(job);
  }
  return has_fed;
}

// How long it is until the next look is due; 0 = there are no jobs.
uint64_t NextLookNs() {
  const MutexLock lock(feed_mutex);
  if (jobs == nullptr || jobs->empty()) return 0;
  uint64_t next_ns = UINT64_MAX;
  for (const Job& job : *jobs) {
    const uint32_t left = job.row.context().pieces.left();
    next_ns = std::min({next_ns, TimeToFeedNs(job, left), ExpectedNs(job, std::min(left, kMostFed)) / 2});
  }
  return std::max(next_ns, kLookNs);
}

// Takes in what has arrived; waits for that until the next look is due, or for ever if there is nothing to do at all.
void AwaitJobs() {
  const uint64_t next_ns = NextLookNs();
  const timespec until = MonotonicIn(next_ns);
  {
    const MutexLock lock(arrived_mutex);
    while (arrived->empty() || at_exit.load()) {
      if (next_ns == 0) {
        pthread_cond_wait(&has_arrived, &arrived_mutex);
      } else if (!WaitForSignal(has_arrived, arrived_mutex, until)) {
        break;
      }
    }
  }
  // In this order, so that OnContextEnds sees each job in one list or the other.
  const MutexLock feed_lock(feed_mutex);
  const MutexLock lock(arrived_mutex);
  if (jobs == nullptr) jobs = new std::list<Job>;
  jobs->splice(jobs->end(), *arrived);
}

uint64_t ProcessorNs() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

void* FeedForEver(void*) {
  ++this_thread.depth;  // driver calls of this thread are not the program's
  const RelaxedCapture relaxed;
  for (;;) {
    AwaitJobs();
    while (FeedAll()) {
    }
    LetContextGo();
    launch_counters.feed_ns.store(ProcessorNs(), std::memory_order_relaxed);
  }
}

// Starts the feeder, once. False: the system gives no thread.
bool HasFeeder() {
  if (has_feeder.load()) return true;
  const MutexLock lock(arrived_mutex);
  if (arrived == nullptr) arrived = new std::list<Job>;
  if (!has_feeder.load()) has_feeder.store(StartOwnThread(&FeedForEver, nullptr, kStackBytes));
  return has_feeder.load();
}

// Puts the two entries into the program's stream. A refusal leaves nothing there that waits.
bool PutGuard(const PieceQueue& queue, const Launch& launch, uint32_t event, uint32_t number) {
  if (StreamRecordsEvent(launch.stream, launch.per_thread, queue.events[event]) != CUDA_SUCCESS) return false;
  const CUdeviceptr word = queue.deferred_word();
  return StreamWaitsForWord(launch.stream, launch.per_thread, word, number) == CUDA_SUCCESS;  // plant: opened_early
}

void OnContextEnds(CUcontext ended) {
  const MutexLock feed_lock(feed_mutex);
  const MutexLock lock(arrived_mutex);
  for (std::list<Job>* list : {jobs, arrived}) {
    if (list == nullptr) continue;
    list->remove_if([&](Job& job) {
      if (job.row.context().context.load() != ended) return false;
      EndJob(job);
      return true;
    });
  }
}

}  // namespace

// The caller holds launch_mutex, so that no other thread defers a launch meanwhile.
// Counts the launch before it looks for scopes. A scope counts itself before it looks for deferred launches (both
// sequentially consistent), so that at least one of the two sees the other.
Deferral Defer(const Launch& launch, const PieceRow& row) noexcept {
  LaunchContext& context = row.context();
  PieceQueue& queue = context.pieces;
  const uint64_t pending_ns = queue.pending_ns.load();
  if (queue.feed_stream == nullptr || at_exit.load()) return Deferral::kRefused;
  if (pending_ns != 0 && pending_ns + row.set().expected_ns > kMostPendingNs) return Deferral::kNotNow;
  uint32_t event = 0;
  if (!TakeEvent(queue, &event)) return Deferral::kNotNow;
  const bool is_blocking = IsBlocking(launch.stream, launch.per_thread);
  Watch(1);
  context.outstanding.fetch_add(1);
  const uint32_t number = queue.deferred.fetch_add(1) + 1;
  if (is_blocking) queue.joined.store(number);
  Deferral result = Deferral::kDeferred;
  if (context.scopes.load() != 0 || scopes_elsewhere.load() != 0) result = Deferral::kNotNow;
  if (!StreamsFitQueues() || !HasFeeder()) result = Deferral::kRefused;
  if (result == Deferral::kDeferred && !PutGuard(queue, launch, event, number)) result = Deferral::kRefused;
  if (result != Deferral::kDeferred) {
    queue.deferred.fetch_sub(1);
    context.outstanding.fetch_sub(1);
    Unwatch(1);
    FreeEvent(queue, event);
    return result;
  }
  context.queued.Add(2);
  row.set().users.fetch_add(1);
  queue.pending_ns.fetch_add(row.set().expected_ns);
  Job job{row, number, context.queued.total(), event};
  job.row.Promise();
  Count(launch_counters.deferred);
  const MutexLock lock(arrived_mutex);
  arrived->push_back(job);
  pthread_cond_signal(&has_arrived);
  return result;
}

void StartFeeding() noexcept {
  if (PreemptionOn()) stream_ends.with_context.Subscribe(&OnContextEnds);
}

void EndFeedingAtExit() noexcept {
  at_exit.store(true);
  if (has_feeder.load()) AwaitMutexAtExit(feed_mutex);
}

// What was allocated is not freed: another thread of the parent may have been changing it.
void ForgetFeedingAfterFork() noexcept {
  feed_mutex = arrived_mutex = PTHREAD_MUTEX_INITIALIZER;
  has_arrived = PTHREAD_COND_INITIALIZER;
  jobs = arrived = nullptr;
  has_feeder.store(false);
  at_exit.store(false);
}

}  // namespace cupola::intercept
