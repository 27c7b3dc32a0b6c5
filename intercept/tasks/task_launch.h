// A launch of the program on its way to become a task. docs/launches-as-tasks.md.
#pragma once

#include <cuda.h>

#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
struct LaunchFacts;
struct LaunchDetails;
}  // namespace cupola::intercept

namespace cupola::intercept::tasks {

/// Of the launches of a thread that pass by, each so-many-th looks at the clock.
inline constexpr uint32_t kPassesALook = 16;

/// Behind so many launches of a thread in a row that can be no tasks, whatever comes, others pass by too,
/// while the process has made none.
inline constexpr uint32_t kNeverInRow = 64;

/// Counts them, and says whether tasks do not pay even now.
bool LookWhilePassing() noexcept;

/// While tasks do not pay, and nothing of them is left, a launch passes by: there is nothing that it
/// comes behind, nobody that is to leave, and nothing is noted of it. In the caller, two cache lines
/// and no locked operation: all else the driver has driven out of the caches since the launch before
/// [measured: docs/launches-as-tasks.md, "While none are made"].
[[gnu::always_inline]] inline bool PassesBy() noexcept {
  // No task was made: a launch that passes by comes behind none, and nothing is noted of it.
  if (this_thread.never_in_row >= kNeverInRow && this_thread.never_passed + 1 < kPassesALook &&
      internal::engine_count.load(std::memory_order_relaxed) == 0) {
    ++this_thread.never_passed;
    return true;
  }
  if (!worth.IsQuiet() ||
      counters.idle_at.load(std::memory_order_relaxed) != PutSoFar()) [[likely]] {
    return false;
  }
  return ++this_thread.passed_by % kPassesALook != 0 || LookWhilePassing();
}

/// Puts the launch into the TaskTable, and *result is what the program is to be told. False: it is
/// to go out as the program made it; tasks that come before it are then looked after, and why is
/// counted. Any thread; no allocation, system call or lock but the stream's once all is known.
bool TryTask(const LaunchFacts& facts, const LaunchDetails& details, CUresult* result) noexcept;

/// Those of this thread that passed by are among the plain ones from now on; who ends without has up
/// to kPassesALook - 1 left.
void CountPassedBy() noexcept;

/// Whether launches and copies follow each other so closely, and so many, that tasks pay; counts
/// one more.
bool IsInRow() noexcept;

}  // namespace cupola::intercept::tasks
