// The settings and the counters of launches as tasks, and the functions that are called at the
// process's start, fork and exit. One set for each process. The settings are written by StartTasks
// and only read later; the counters are written and read by any thread. "In a row" here means:
// narrow launches and small copies of the process, each within TaskSettings::row_ns after the one
// before, with no launch between them whose kernel or shape rules out a task.
// docs/task-order.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/reasons.h"
#include "base/settings/variables.h"
#include "intercept/process/count.h"
#include "intercept/process/participation.h"

namespace cupola::intercept::tasks {

struct TaskSettings {
  /// CUPOLA_TASK_WARPS: a launch may have at most this many warps in all its blocks together.
  uint32_t most_warps = settings::Fallback("CUPOLA_TASK_WARPS");
  /// CUPOLA_TASKS_AFTER: this many narrow launches in a row precede the first task.
  uint32_t after_launches = settings::Fallback("CUPOLA_TASKS_AFTER");
  /// This many more launches, each of them after `after_launches` others in its row, precede the
  /// load of the MasterKernel, which takes as long as 1,000 launches. 0 where CUPOLA_TASKS_AFTER is
  /// set, which then is the only condition.
  uint32_t ripe_launches = 480;
  /// CUPOLA_TASK_COPY_BYTES: the driver makes copies that are larger; with 0 it makes all.
  uint32_t most_copied = settings::Fallback("CUPOLA_TASK_COPY_BYTES");
  /// CUPOLA_TASK_NOTICE_MS: a notice names a task that the program has waited for this long
  /// (task_watch.h); with 0 there are no notices.
  uint64_t notice_ns = settings::Fallback("CUPOLA_TASK_NOTICE_MS") * 1'000'000;
  /// CUPOLA_TASK_PATIENCE_MS: before the MasterKernel is loaded, the loading thread waits at most
  /// this long for the context's earlier work (context_rest.h); 100 ms with CUPOLA_TASKS=always.
  uint64_t patience_ns = settings::Fallback("CUPOLA_TASK_PATIENCE_MS") * 1'000'000;
  /// CUPOLA_WAIT_LIMIT_MS: a wait of Cupola's for tasks gives up when none of them has made
  /// progress for this long; with 0 it never gives up.
  uint64_t wait_limit_ns = settings::Fallback("CUPOLA_WAIT_LIMIT_MS") * 1'000'000;
  /// A launch is in the same row as the one before if it comes at most this long after it.
  uint64_t row_ns = 100'000;
  /// CUPOLA_INEXACT=1: kernels whose results as tasks may differ in some bits become tasks too.
  bool allow_inexact = false;
};
extern TaskSettings task_settings;

/// Counts since the process's start, said in the log at exit.
struct alignas(64) TaskCounters {
  std::atomic<uint64_t> tasks{0};   ///< launches that became tasks
  std::atomic<uint64_t> copies{0};  ///< copies, and calls that set memory, that became tasks
  /// The sum of `tasks` and `copies` at a moment when none of them was outstanding and no
  /// MasterKernel ran. Not a count: it is here to share their cache line, because PassesBy
  /// (task_launch.h) compares it with that sum at each launch.
  std::atomic<uint64_t> idle_at{UINT64_MAX};
  std::atomic<uint64_t> starts{0};   ///< launches of the MasterKernel
  std::atomic<uint64_t> turns{0};    ///< changes of engines to other modules (TaskEngine::TurnTo)
  std::atomic<uint64_t> holds{0};    ///< times that a MasterKernel was sent away (TaskEngine::Hold)
  std::atomic<uint64_t> flushes{0};  ///< waits for tasks that were put into streams
  std::atomic<uint64_t> stuck{0};    ///< waits that gave up because no task made progress
  std::atomic<uint64_t> waits{0};    ///< waits of host threads for tasks, before or in a call
  std::atomic<uint64_t> queries{0};  ///< queries to the driver whether a stream's work is over
  /// Launches that did not become tasks, narrow or not, by Reason.
  std::atomic<uint64_t> plain[kReasons] = {};
};
extern TaskCounters task_counters;

/// Number of tasks so far, those that are copies included. Each is counted after it was written
/// into the TaskTable and before the program's call returns.
inline uint64_t PutSoFar() noexcept {
  return task_counters.tasks.load(std::memory_order_acquire) +
         task_counters.copies.load(std::memory_order_acquire);
}

/// Reads the environment, CUPOLA_TASKS=auto (default), always (from the first launch on) or off,
/// and makes launches tasks from then on. Called when the driver has been opened, after
/// StartPreemption.
void StartTasks() noexcept;

/// Called in the child after a fork: if the parent had an engine, no launch of the child becomes a
/// task.
void ForgetTasksAfterFork() noexcept;

/// Called from exit(): writes the counts to the log.
void EndTasksAtExit() noexcept;

}  // namespace cupola::intercept::tasks
