// Streams whose launches become tasks, and the order between a stream's tasks and its driver work.
// A task is put in only when the stream has no driver work outstanding. Driver work comes behind
// the stream's tasks because the stream is first made to wait for the last task's word (a *flush*).
// A hook acts twice around a driver call that adds work to a stream. Before the call it flushes the
// stream. After the call it records that the stream has driver work. Recording it only before the
// call would be a race: another thread could query the stream while the call is under way, find it
// without work, and put a task in that should come behind the call's work. Any thread.
// docs/masterkernel.md.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/facts/streams.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// A stream that has or had tasks. All of them are in one column, each behind the one before. Made
/// by FindStream and never destroyed; one that is free is used again for another stream. Members
/// that are not atomic are used under the lock (Take, TryTake, Give).
struct StreamTasks {
  std::atomic<bool> taken{false};  ///< the lock
  /// CU_STREAM_LEGACY for the legacy stream, CU_STREAM_PER_THREAD for a per-thread default stream;
  /// null: free to be used again.
  CUstream stream = nullptr;
  std::atomic<TaskEngine*> engine{nullptr};  ///< of the stream's context
  /// For a per-thread default stream: the thread that owns it; null after that thread has ended.
  std::atomic<const void*> owner{nullptr};
  uint32_t number = 0;  ///< among all streams; modulo the number of columns, it is the column
  runtime::TaskId last{};  ///< the last task; sequence 0: none yet. Without the lock: LastPut
  runtime::TaskId flushed{};  ///< the task for which the stream was last made to wait
  std::atomic<bool> is_blocking{true};  ///< its work and the legacy stream's wait for each other
  /// How often this stream was given driver work, plus 1.
  std::atomic<uint64_t> work{1};
  /// Sum of all counts of driver work that concern the stream (`work` and driver_work.h) when it
  /// last had none outstanding; 0: not known.
  uint64_t clean_at = 0;
  uint32_t skip = 0;     ///< launches until the driver is queried again about the stream's work
  uint32_t backoff = 1;  ///< what `skip` is set to after the next query in vain, in launches
  std::atomic<bool> spreads{false};  ///< its last launch had several blocks
  /// The last task, for threads without the lock: its column, then kSequenceBits of its sequence.
  std::atomic<uint64_t> put{0};
  std::atomic<uint64_t> waited_for{0};  ///< sequence of the last task that the host has waited for
  uint64_t counted = 0;  ///< sequence of its last task when CountUse last counted from anew
  uint32_t tried = 0;    ///< number of the trial in which it last took part
  uint32_t held = 0;     ///< number of the trial in which it may have no more tasks

  void Take() noexcept {
    while (!TryTake()) {
    }
  }
  bool TryTake() noexcept { return !taken.exchange(true, std::memory_order_acquire); }
  void Give() noexcept { taken.store(false, std::memory_order_release); }

  /// `last`, for threads that do not hold the lock.
  runtime::TaskId LastPut() const noexcept {
    const uint64_t id = put.load(std::memory_order_acquire);
    return {.column = static_cast<uint32_t>(id >> kSequenceBits),
            .sequence = id & ((uint64_t{1} << kSequenceBits) - 1)};
  }
  /// Called under the lock when `last` has changed.
  void PublishLastPut() noexcept {
    put.store(uint64_t{last.column} << kSequenceBits | last.sequence, std::memory_order_release);
  }

  /// Bits of `put` for the sequence. At ten million tasks a second a column uses them up after 300
  /// days.
  static constexpr uint32_t kSequenceBits = 48;
};

/// Holds a stream's lock while a task is put in or the stream is made to wait.
class StreamLock {
 public:
  explicit StreamLock(StreamTasks& stream) noexcept : stream_(stream) { stream_.Take(); }
  ~StreamLock() { stream_.Give(); }
  StreamLock(const StreamLock&) = delete;
  StreamLock& operator=(const StreamLock&) = delete;

 private:
  StreamTasks& stream_;
};

/// Prefetches what the host will write when it puts the stream's next task in.
void PrefetchFor(const StreamTasks& stream, const TaskEngine& engine) noexcept;

/// Puts a task behind those of the stream. The caller holds the stream's lock. False: the task is
/// not in, because the engine is dead, or because its column is full and stuck.
bool PutInto(StreamTasks& stream, runtime::TaskWords* words) noexcept;

/// Waits for all tasks of all engines, stream by stream. `being_put`: also for those that other
/// threads are putting in; the caller then holds no stream's lock. False: an engine is stuck.
bool WaitForAllTasks(bool being_put = false) noexcept;

/// For a thread that goes on although an engine is stuck. Ensures that all tasks that are in will
/// run, flushes each stream that this thread can name, and waits until each other stream's lock has
/// been free once.
void FlushStuck() noexcept;

/// Keeps all threads from putting tasks into an engine while it lives: holds the locks of all the
/// engine's streams, and keeps streams from being added. Made by a thread that holds none of them.
class AllStreams {
 public:
  explicit AllStreams(const TaskEngine& engine) noexcept;
  ~AllStreams();
  AllStreams(const AllStreams&) = delete;
  AllStreams& operator=(const AllStreams&) = delete;

 private:
  const TaskEngine& engine_;
};

/// Finds or makes the StreamTasks of a launch's stream, which is of the context of `engine`. Null
/// if the stream's launches cannot be tasks: the legacy stream beside other streams, or a
/// per-thread default stream in a second context; or if there are too many streams. Lock-free for a
/// stream that was seen before.
StreamTasks* FindStream(TaskEngine& engine, CUstream stream, const StreamKey& key) noexcept;

/// Called before a launch: a per-thread default stream that is used counts as a stream that the
/// program made.
void CountThreadsOwnStream() noexcept;
inline void CountIfOwnStream(CUstream stream, bool per_thread) noexcept {
  if (stream == nullptr ? per_thread : stream == CU_STREAM_PER_THREAD) CountThreadsOwnStream();
}

/// Whether no driver work is outstanding in the stream. May query the driver, and wait for some
/// 40 us. The caller holds the stream's lock.
bool IsClean(StreamTasks& stream) noexcept;

/// Called before the driver is given work for this stream: puts that work behind the tasks of the
/// stream or, for the legacy stream, behind those of all streams of its context. For the latter the
/// tasks of other threads' default streams are waited for on the host; if such a wait is stuck, the
/// legacy stream is made to wait for them.
void BeforeWorkOf(CUstream stream, bool per_thread) noexcept;

/// Called after the driver was given work for this stream: records that, so that tasks which are
/// put in from now on come after it.
void AfterWorkOf(CUstream stream, bool per_thread) noexcept;

/// Called before the driver is given work for a stream that is not known, or for all: flushes all
/// streams. AfterWork (driver_work.h) is called after it.
void BeforeWork() noexcept;

/// Waits on the host until all tasks of a stream have run; for the legacy stream, those of all
/// streams of its context. False: stuck.
bool WaitForStream(CUstream stream, bool per_thread, Until until = Until::kOver) noexcept;

/// Waits for the tasks of all streams of the engine's context, because the program itself waits for
/// the context.
void WaitForContext(TaskEngine& engine) noexcept;

/// Has the TaskWatch look at the oldest task of the next stream, from `*number` on, that has one. True also if a stream's
/// lock is taken, since a task is then being put in. False: no stream has a task.
bool LookAtNextStream(uint32_t* number) noexcept;

/// How many streams of an engine were given tasks since the count began, and how many tasks these
/// are. `from_now_on`: the next count begins now.
struct StreamUse {
  uint32_t streams = 0;
  uint32_t tasks = 0;
};
StreamUse CountUse(const TaskEngine& engine, bool from_now_on) noexcept;

/// Whether a task is outstanding that comes before what the stream is given now: one of its own or,
/// for the legacy stream, one of any blocking stream. Like a wait, a call keeps the tasks going: it
/// launches the MasterKernel if none takes tasks.
bool HasTasks(CUstream stream, bool per_thread) noexcept;

/// Called when the program has made a stream. From then on launches into the legacy stream are
/// plain.
void CountProgramStream() noexcept;
/// Number of streams so far that may have had tasks: those that the program made, and the legacy
/// one.
uint32_t StreamsSoFar() noexcept;
/// Called when a stream is about to be destroyed and has no task outstanding.
void ForgetStream(CUstream stream) noexcept;

}  // namespace cupola::intercept::tasks
