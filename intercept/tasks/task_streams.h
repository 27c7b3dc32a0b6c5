// Streams whose launches become tasks, and the order between tasks and the driver's own work: a
// task is put in only where no other work of its stream is outstanding, and other work is put
// behind the stream's tasks by a wait for the last one's word. A call that gives the driver work
// is seen to twice: before it (its stream's tasks come first) and behind it (from now on the
// stream has other work; noted before, another thread could find the stream clean while the call
// is on its way). docs/narrow-tasks.md.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/facts/streams.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// A stream. Its tasks are in one column, each behind the one before.
struct StreamTasks {
  std::atomic<bool> taken{false};
  CUstream stream = nullptr;  ///< CU_STREAM_LEGACY for the legacy stream, CU_STREAM_PER_THREAD for
                              ///< a thread's own; null = free to be used again
  std::atomic<TaskEngine*> engine{nullptr};  ///< of its context
  std::atomic<const void*> owner{nullptr};   ///< of a thread's own: who; null when that has ended
  uint32_t number = 0;                       ///< of the stream; its column is that of so many
  runtime::TaskId last{};                    ///< sequence 0: none yet; others: LastPut
  runtime::TaskId flushed{};                 ///< the stream waits for it
  std::atomic<bool> is_blocking{true};       ///< work of the legacy stream comes before and after
  std::atomic<uint64_t> work{1};             ///< how often the driver was given other work for it
  uint64_t clean_at = 0;           ///< all such counts when it had none outstanding; 0: not known
  uint32_t skip = 0, backoff = 1;  ///< launches until the driver is asked again
  std::atomic<bool> spreads{false};  ///< a launch of several blocks was its last one
  std::atomic<uint64_t> put{0};      ///< its last task: its column, then kSequenceBits of sequence
  std::atomic<uint64_t> waited_for{0};  ///< sequence of the last task that the host has waited for
  uint64_t counted = 0;  ///< its sequence, when streams that have tasks were counted last
  uint32_t tried = 0, held = 0;    ///< number of the trial that it was in; that it has no more in

  void Take() noexcept {
    while (taken.exchange(true, std::memory_order_acquire)) {
    }
  }
  void Give() noexcept { taken.store(false, std::memory_order_release); }

  /// `last`, for who does not hold the lock.
  runtime::TaskId LastPut() const noexcept {
    const uint64_t id = put.load(std::memory_order_acquire);
    return {.column = static_cast<uint32_t>(id >> kSequenceBits),
            .sequence = id & ((uint64_t{1} << kSequenceBits) - 1)};
  }
  /// `last` is another now.
  void NoteLastPut() noexcept {
    put.store(uint64_t{last.column} << kSequenceBits | last.sequence, std::memory_order_release);
  }

  /// Of `put`. With ten million tasks a second a column has had so many after 300 days.
  static constexpr uint32_t kSequenceBits = 48;
};

/// Held while a task is put in, or the stream is made to wait.
class StreamLock {
 public:
  explicit StreamLock(StreamTasks& stream) noexcept : stream_(stream) { stream_.Take(); }
  ~StreamLock() { stream_.Give(); }
  StreamLock(const StreamLock&) = delete;
  StreamLock& operator=(const StreamLock&) = delete;

 private:
  StreamTasks& stream_;
};

/// A task will be put into the stream: what the host then writes is asked for.
void PrefetchFor(const StreamTasks& stream, const TaskEngine& engine) noexcept;

/// Puts a task behind those of the stream, under its lock. False: it is not in, for the engine is dead, or
/// its column full and stuck.
bool PutInto(StreamTasks& stream, runtime::TaskWords* words) noexcept;

/// Waits for all tasks that there are, of all engines, stream by stream. `being_put`: also for
/// those that other threads are about to put in; the caller has none of the streams' locks. False: some
/// engine is stuck.
bool WaitForAllTasks(bool being_put = false) noexcept;

/// For who goes on though that is so: what is in will be run, each stream that this thread can name comes
/// behind its tasks from now on, and each stream's lock has been free.
void FlushStuck() noexcept;

/// Held while nobody is to put a task into an engine: the locks of all its streams, and no stream
/// is added. A thread that holds none of them may make one.
class AllStreams {
 public:
  explicit AllStreams(const TaskEngine& engine) noexcept;
  ~AllStreams();
  AllStreams(const AllStreams&) = delete;
  AllStreams& operator=(const AllStreams&) = delete;

 private:
  const TaskEngine& engine_;
};

/// Of a launch's stream, in the context of `engine`; null where its launches cannot be tasks (the
/// legacy stream beside others, a thread's own in a second context). Lock-free once it has been
/// seen.
StreamTasks* FindStream(TaskEngine& engine, CUstream stream, const StreamKey& key) noexcept;

/// A launch is about to be made: one into a thread's own default stream counts as a stream that the
/// program made.
void NoteThreadsOwnStream() noexcept;
inline void NoteOwnStream(CUstream stream, bool per_thread) noexcept {
  if (stream == nullptr ? per_thread : stream == CU_STREAM_PER_THREAD) NoteThreadsOwnStream();
}

/// Whether no work but tasks is outstanding in the stream; may ask the driver, and wait for some
/// 40 us. Under its lock.
bool IsClean(StreamTasks& stream) noexcept;

/// The driver is about to be given work for this stream: it comes after the tasks of the stream, or
/// of all streams of its context where it is the legacy one. Other threads' default streams are waited for
/// then on the host; where that is stuck, the legacy stream is made to wait for them.
void BeforeWorkOf(CUstream stream, bool per_thread) noexcept;

/// It has been given it: tasks that are put in from now on come after it.
void AfterWorkOf(CUstream stream, bool per_thread) noexcept;

/// The same for work of any stream, or of all: before it. Behind it: AfterWork (driver_work.h).
void BeforeWork() noexcept;

/// Until all tasks of a stream have run. False: stuck.
bool WaitForStream(CUstream stream, bool per_thread, Until until = Until::kOver) noexcept;

/// The same of all streams of a context, which the program itself waits for.
void WaitForContext(TaskEngine& engine) noexcept;

/// An event is about to be waited for in the driver: while it has not been reached and tasks are
/// left, which it may be behind, looks whether one does not end (task_watch.h). Spins for some ms,
/// then sleeps between looks.
void WatchOverEvent(CUevent event) noexcept;

/// Streams of an engine that had tasks put in since they were last counted, and how many tasks.
struct StreamUse {
  uint32_t streams = 0, tasks = 0;
};
StreamUse CountUse(const TaskEngine& engine, bool from_now_on) noexcept;

/// Whether a task has not run that comes before what the stream is given now: its own, or of any
/// blocking stream where it is the legacy one. Who asks keeps tasks going, as who waits does.
bool HasTasks(CUstream stream, bool per_thread) noexcept;

/// It was made, or is about to be destroyed with nothing outstanding.
void NoteStreamMade() noexcept;
/// Streams that may have had tasks so far.
uint32_t StreamsSoFar() noexcept;
void ForgetStream(CUstream stream) noexcept;

}  // namespace cupola::intercept::tasks
