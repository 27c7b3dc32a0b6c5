#include "intercept/tasks/task_times.h"

#include "intercept/process/fast_clock.h"
#include "intercept/tasks/task_trial.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

using Verdict = TaskTrial::Verdict;

/// Measures how long tasks take outside of trials: from full columns, and from the host's waits.
class Measuring {
 public:
  // The same stream's column was full at two times. If no more tasks than a column has were put in
  // between, the stream was never without a task, and the host was waiting for room. So the device
  // ran about as many tasks meanwhile as all streams were given. The duration of one is reported as
  // the mean over these streams, because this stream may have the shortest tasks of all.
  void MeasureFullColumn(const StreamTasks& stream, const TaskEngine& engine) {
    if (taken_.test_and_set(std::memory_order_acquire)) return;
    const uint64_t now = NowNs();
    const uint64_t tasks = stream.last.sequence - sequence_;
    const bool is_span =
        marked_ == &stream && column_ == stream.last.column && tasks <= runtime::kTaskRows;
    const bool is_of_another =
        marked_ != nullptr && marked_ != &stream && now - since_ns_ < kStaleNs;
    if (is_span ? tasks >= kFewestOfSpan : !is_of_another) {
      const StreamUse use = CountUse(engine, /*from_now_on=*/true);
      const uint64_t each = use.tasks == 0 ? 0 : (now - since_ns_) * use.streams / use.tasks;
      if (is_span) worth.Tell(now, each, each, use.streams, stream.spreads);
      marked_ = is_span ? nullptr : &stream;
      since_ns_ = now;
      sequence_ = stream.last.sequence;
      column_ = stream.last.column;
    }
    taken_.clear(std::memory_order_release);
  }

  void MeasureWait(const TaskEngine& engine, bool spreads, uint32_t tasks, uint64_t ns) {
    if (tasks == 0 || taken_.test_and_set(std::memory_order_acquire)) return;
    const uint64_t least = ns / tasks, most = tasks == 1 ? UINT64_MAX : ns / (tasks - 1);
    if (most <= worth.LimitNs(1, spreads)) {
      worth.Tell(NowNs(), least, most, 1, spreads);
    } else if (const StreamUse use = CountUse(engine, /*from_now_on=*/false);
               use.tasks >= kFewestOfSpan) {
      (void)CountUse(engine, /*from_now_on=*/true);
      worth.Tell(NowNs(), least, most, use.streams, spreads);
      marked_ = nullptr;
    }
    taken_.clear(std::memory_order_release);
  }

 private:
  static constexpr uint32_t kFewestOfSpan = 16;
  static constexpr uint64_t kStaleNs = 50'000'000;
  std::atomic_flag taken_;
  const StreamTasks* marked_ = nullptr;  ///< stream whose column was found full last
  uint64_t since_ns_ = 0;                ///< when that was
  uint64_t sequence_ = 0;                ///< of the stream's last task then
  uint32_t column_ = 0;                  ///< of the stream then
} measuring;

/// The trial that is on: the streams that take part, and the one that is watched.
class Trying {
 public:
  // Under the stream's lock.
  Verdict Look(StreamTasks& stream, const TaskEngine& engine, uint32_t trial) {
    if (taken_.test_and_set(std::memory_order_acquire)) return Verdict::kNone;
    Join(stream, trial);
    const Verdict verdict = watched_ != nullptr ? LookAtWatched(stream, engine) : LookAtPace(stream);
    if (verdict != Verdict::kNone) End(verdict);
    taken_.clear(std::memory_order_release);
    return verdict;
  }

  void Watch(StreamTasks& stream, uint32_t left) {
    if (taken_.test_and_set(std::memory_order_acquire)) return;
    if (watched_ == nullptr) {
      watched_ = &stream;
      last_ = stream.last;
      spreads_ = stream.spreads;
      watch_.Begin(NowNs(), left);
    }
    taken_.clear(std::memory_order_release);
  }

 private:
  // After so many uncertain trials in a row there are no more: this program's launches show
  // nothing.
  static constexpr uint32_t kMostUncertain = 8;

  void Join(StreamTasks& stream, uint32_t trial) {
    if (trial_ != trial) {
      trial_ = trial;
      streams_ = 0;
      watched_ = nullptr;
      pace_.Begin(NowNs(), PutSoFar());
    }
    if (stream.tried == trial) return;
    stream.tried = trial;
    ++streams_;
  }

  Verdict LookAtWatched(const StreamTasks& locked, const TaskEngine& engine) {
    uint32_t left = 0;
    if (!CountLeft(locked, engine, &left)) return Verdict::kNone;
    return watch_.Look(NowNs(), left, worth.LimitNs(streams_, spreads_));
  }

  // Used while no stream has had enough tasks to be watched.
  Verdict LookAtPace(const StreamTasks& stream) {
    const uint64_t put = PutSoFar();
    if (!pace_.IsTime(put, streams_)) return Verdict::kNone;
    const uint64_t most = pace_.MostNs(NowNs(), put, streams_);
    return most <= worth.LimitNs(streams_, stream.spreads) ? Verdict::kShort : Verdict::kNone;
  }

  // How many are left of the tasks that were outstanding when the watch began. False: the watched
  // stream is locked, belongs to another engine, or has been given tasks since.
  bool CountLeft(const StreamTasks& locked, const TaskEngine& engine, uint32_t* left) {
    StreamTasks* const stream = watched_;
    if (stream != &locked && stream->taken.exchange(true, std::memory_order_acquire)) return false;
    const bool is_same = stream->engine.load() == &engine && stream->last.column == last_.column &&
                         stream->last.sequence == last_.sequence;
    if (is_same) {
      *left = engine.CountLeft(last_);
    } else if (stream->engine.load() == &engine) {
      watched_ = nullptr;
    }
    if (stream != &locked) stream->Give();
    return is_same;
  }

  void End(Verdict verdict) {
    watched_ = nullptr;
    if (verdict == Verdict::kLong) {
      worth.Convict(NowNs());
    } else if (verdict == Verdict::kShort) {
      // Only one stream is known to have short tasks, so this is no verdict that all tasks pay.
      worth.EndTrial();
    } else if (++uncertain_ < kMostUncertain) {
      return worth.BeginTrial();
    } else {
      worth.EndTrial();
    }
    uncertain_ = 0;
  }

  std::atomic_flag taken_;  ///< held while a member is used; a thread that finds it held goes on
  uint32_t trial_ = 0;      ///< number of the trial
  uint32_t streams_ = 0;    ///< that have taken part in it
  uint32_t uncertain_ = 0;  ///< trials in a row without a result
  StreamTasks* watched_ = nullptr;
  runtime::TaskId last_{};  ///< last task of the watched stream when the watch began
  bool spreads_ = false;    ///< its last launch had several blocks
  TaskTrial watch_;
  TaskPace pace_;
} trying;

}  // namespace

bool MayTry(StreamTasks& stream, const TaskEngine& engine, uint32_t trial) noexcept {
  const Verdict verdict = trying.Look(stream, engine, trial);
  if (verdict != Verdict::kNone) return verdict != Verdict::kLong;
  if (stream.held == trial) return false;
  const uint32_t left = stream.last.sequence == 0 ? 0 : engine.CountLeft(stream.last);
  if (left < TaskTrial::kTasks) return true;
  stream.held = trial;
  trying.Watch(stream, left);
  return false;
}

void MeasureFullColumn(const StreamTasks& stream, const TaskEngine& engine) noexcept {
  measuring.MeasureFullColumn(stream, engine);
}

void MeasureWait(const TaskEngine& engine, bool spreads, uint32_t tasks, uint64_t ns) noexcept {
  measuring.MeasureWait(engine, spreads, tasks, ns);
}

void MeasureShortWait(uint64_t ns) noexcept {
  if (ns <= TaskWorth::kWaitedForNs) worth.Acquit();
}

}  // namespace cupola::intercept::tasks
