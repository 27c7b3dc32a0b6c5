// Measures how long tasks take during a trial: TaskTrial from how many of one stream's tasks are
// left whenever the host launches something, TaskPace from how many tasks were put in while no
// stream had many. Until the times are known each stream has few tasks, because full columns of
// tasks that turn out too long would have to run to their end [measured:
// docs/notes/2026-11-28-trials-of-tasks.md]. Owned by task_times.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Watches the outstanding tasks of one stream, to which no more are added meanwhile. If a task has
/// ended between two looks, the times of the looks bound its duration from both sides. Makes no
/// CUDA call and reads no clock; one thread at a time.
class TaskTrial {
 public:
  /// A stream has at most so many tasks during a trial.
  static constexpr uint32_t kTasks = 4;
  /// At least so many looks come before the verdict kLong. A program with many streams may launch
  /// into one after the other, and the limit for a task grows with the number of streams seen.
  static constexpr uint32_t kLaunches = 512;

  enum class Verdict : uint8_t { kNone, kShort, kLong, kUncertain };

  /// Begins to watch a stream with `left` outstanding tasks.
  void Begin(uint64_t now_ns, uint32_t left) noexcept {
    *this = TaskTrial{};
    begun_ns_ = before_ns_ = now_ns;
    left_ = left;
  }

  /// Looks again: `left` tasks are outstanding now, and a task may take `limit_ns`. kShort: some
  /// task took no more than the limit. kLong: two tasks in a row took more, so that one pause
  /// without the GPU does not count, and there were kLaunches looks. kUncertain: all have run
  /// without either.
  Verdict Look(uint64_t now_ns, uint32_t left, uint64_t limit_ns) noexcept {
    ++looks_;
    if (left < left_) {
      AddEnds(now_ns, left_ - left);
      left_ = left;
    } else if (has_ended_ && left != 0) {
      two_ns_ = std::max(two_ns_, std::min(last_ns_, now_ns - ended_by_ns_));
    }
    before_ns_ = now_ns;
    if (most_ns_ <= limit_ns) return Verdict::kShort;
    if (two_ns_ > limit_ns) return looks_ < kLaunches ? Verdict::kNone : Verdict::kLong;
    return left == 0 ? Verdict::kUncertain : Verdict::kNone;
  }

 private:
  // `ended` tasks have ended between the previous look and this one. When the first task that is
  // seen to end began is not known.
  void AddEnds(uint64_t now_ns, uint32_t ended) noexcept {
    if (has_ended_) {
      most_ns_ = std::min(most_ns_, (now_ns - ended_after_ns_) / ended);
      const uint64_t least = (std::max(before_ns_, ended_by_ns_) - ended_by_ns_) / ended;
      two_ns_ = std::max(two_ns_, std::min(last_ns_, least));
      last_ns_ = least;
    } else if (ended > 1) {
      most_ns_ = (now_ns - begun_ns_) / (ended - 1);
    }
    has_ended_ = true;
    ended_after_ns_ = before_ns_;
    ended_by_ns_ = now_ns;
  }

  uint64_t begun_ns_ = 0;   ///< time of Begin
  uint64_t before_ns_ = 0;  ///< time of the previous look
  uint32_t left_ = 0;       ///< outstanding tasks at that look
  uint32_t looks_ = 0;      ///< since Begin
  bool has_ended_ = false;  ///< a task was seen to end, after ended_after_ns_ and by ended_by_ns_
  uint64_t ended_after_ns_ = 0;
  uint64_t ended_by_ns_ = 0;
  uint64_t most_ns_ = UINT64_MAX;  ///< upper bound for the shortest task
  uint64_t last_ns_ = 0;           ///< lower bound for the last task
  uint64_t two_ns_ = 0;            ///< the largest lower bound that two tasks in a row share
};

/// Bounds how long tasks take from above where the host is no faster than the tasks. Then no stream
/// ever has as many tasks as TaskTrial watches, and all tasks that were put in have run except for
/// the last few. Makes no CUDA call and reads no clock; one thread at a time.
class TaskPace {
 public:
  /// Between two looks at least so many tasks are put in,
  static constexpr uint64_t kTasks = 512;
  /// and at least so many for each stream.
  static constexpr uint64_t kTasksOfStream = 4 * TaskTrial::kTasks;

  /// Begins a measurement. `put`: the number of tasks so far, of any count that only grows.
  void Begin(uint64_t now_ns, uint64_t put) noexcept {
    begun_ns_ = now_ns;
    put_ = put;
  }

  /// Whether enough tasks were put in since Begin for MostNs.
  bool IsTime(uint64_t put, uint32_t streams) const noexcept {
    return put - put_ >= std::max(kTasks, kTasksOfStream * streams);
  }

  /// Upper bound for the mean duration of the tasks since Begin, given that `streams` streams have
  /// at most TaskTrial::kTasks outstanding each and that each stream runs one task at a time.
  /// Begins anew.
  uint64_t MostNs(uint64_t now_ns, uint64_t put, uint32_t streams) noexcept {
    const uint64_t have_run = put - put_ - uint64_t{TaskTrial::kTasks} * streams;
    const uint64_t most = (now_ns - begun_ns_) * streams / have_run;
    Begin(now_ns, put);
    return most;
  }

 private:
  uint64_t begun_ns_ = 0;  ///< time of Begin
  uint64_t put_ = 0;       ///< tasks so far at that time
};

}  // namespace cupola::intercept::tasks
