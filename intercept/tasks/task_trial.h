// How long tasks take: those of one stream, seen by looking at how many are left whenever the host
// launches something, or of all, by how many were put in while no stream had many. Full columns of
// tasks that turn out too long would have to run to their end [measured: docs/launches-as-tasks.md,
// "How narrow"], so until that is known a stream has few.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Watches the tasks of a stream that are outstanding and gets none behind them. That one has ended
/// between two looks bounds its time from both sides. No CUDA call, no clock of its own; one thread
/// at a time.
class TaskTrial {
 public:
  /// A stream has so many at most.
  static constexpr uint32_t kTasks = 4;
  /// Launches that are looked at until it is said that tasks are long: one that has many streams
  /// may launch into one after the other, and what a task may take is by their number.
  static constexpr uint32_t kLaunches = 512;

  enum class Verdict : uint8_t { kNone, kShort, kLong, kUncertain };

  /// `left` tasks are outstanding.
  void Begin(uint64_t now_ns, uint32_t left) noexcept {
    *this = TaskTrial{};
    begun_ns_ = before_ns_ = now_ns;
    left_ = left;
  }

  /// Now `left` are; one may take `limit_ns`. Short: one took no more. Long: two in a row took
  /// more, so that a while without the GPU is none; and enough launches were looked at. Uncertain:
  /// all have run.
  Verdict Look(uint64_t now_ns, uint32_t left, uint64_t limit_ns) noexcept {
    ++looks_;
    if (left < left_) {
      NoteEnds(now_ns, left_ - left);
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
  // `ended` tasks, between the look before and this one. The first that is seen to end has begun
  // at an unknown time.
  void NoteEnds(uint64_t now_ns, uint32_t ended) noexcept {
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

  uint64_t begun_ns_ = 0, before_ns_ = 0;  ///< `before`: the look before
  uint32_t left_ = 0, looks_ = 0;
  bool has_ended_ = false;  ///< one has, between:
  uint64_t ended_after_ns_ = 0, ended_by_ns_ = 0;
  uint64_t most_ns_ = UINT64_MAX;      ///< of the shortest
  uint64_t last_ns_ = 0, two_ns_ = 0;  ///< at least: the last; each of two in a row
};

/// What tasks take at most where the host is no faster than they are: then no stream ever has as many
/// as TaskTrial watches, and all that were put in have run but for the last few. No CUDA call, no clock
/// of its own; one thread at a time.
class TaskPace {
 public:
  /// So many are put in at least, and so many for each stream, between two looks.
  static constexpr uint64_t kTasks = 512, kTasksOfStream = 4 * TaskTrial::kTasks;

  /// `put`: tasks so far, of any count that goes on.
  void Begin(uint64_t now_ns, uint64_t put) noexcept {
    begun_ns_ = now_ns;
    put_ = put;
  }

  /// Whether enough were put in to be looked at.
  bool IsTime(uint64_t put, uint32_t streams) const noexcept {
    return put - put_ >= std::max(kTasks, kTasksOfStream * streams);
  }

  /// Of the tasks since the look before, in streams that have TaskTrial::kTasks outstanding at most, a
  /// mean: each stream runs one at a time. Begins anew.
  uint64_t MostNs(uint64_t now_ns, uint64_t put, uint32_t streams) noexcept {
    const uint64_t have_run = put - put_ - uint64_t{TaskTrial::kTasks} * streams;
    const uint64_t most = (now_ns - begun_ns_) * streams / have_run;
    Begin(now_ns, put);
    return most;
  }

 private:
  uint64_t begun_ns_ = 0, put_ = 0;
};

}  // namespace cupola::intercept::tasks
