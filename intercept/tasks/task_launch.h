// Turns a launch of the program into a task, or says that it is to be a plain launch. Called by the
// launch hooks, on the thread that launches; any thread. docs/tasks.md.
#pragma once

#include <cuda.h>

#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
struct Launch;
}  // namespace cupola::intercept

namespace cupola::intercept::tasks {

/// Of the launches of a thread that pass by (PassesBy), every so-many-th reads the clock.
inline constexpr uint32_t kPassesALook = 16;

/// After so many launches in a row of one thread that could never become tasks, for their shape or
/// for lack of a body, its launches pass by too, as long as the process has made no engine.
inline constexpr uint32_t kNeverInRow = 64;

/// Set by batches/batches.cpp while batches have begun and their speed is being measured. The first
/// launch of the process does not become a task before that is known.
inline std::atomic<bool> is_batch_measured{false};

/// Counts the launches of this thread that passed by. Returns whether tasks still do not pay.
bool LookWhilePassing() noexcept;

/// Whether this thread's launches can never become tasks, for their shape or for lack of a body, as its last ones show, and
/// the process has made no engine: then nothing is to be done about tasks at a launch like the last one.
inline bool NeverMakesTasks() noexcept {
  return this_thread.never_in_row >= kNeverInRow && internal::engine_count.load(std::memory_order_relaxed) == 0;
}

/// Whether a launch may pass by, that is, go to the driver without any work on tasks. It may while
/// tasks do not pay and no task or MasterKernel is left: then there is no task that it must come
/// behind and no MasterKernel to ask to leave, and nothing is recorded of it. Inlined, reads two
/// cache lines and has no locked operation, because the driver has displaced everything else from
/// the caches since the launch before [measured: docs/notes/2026-11-28-launches-that-pass-by.md].
[[gnu::always_inline]] inline bool PassesBy() noexcept {
  // No engine was made, so there is no task that the launch must come behind.
  if (this_thread.never_passed + 1 < kPassesALook && NeverMakesTasks()) {
    ++this_thread.never_passed;
    return true;
  }
  if (!worth.IsQuiet() ||
      task_counters.idle_at.load(std::memory_order_relaxed) != PutSoFar()) [[likely]] {
    return false;
  }
  return ++this_thread.passed_by % kPassesALook != 0 || LookWhilePassing();
}

/// Puts the launch into the TaskTable, sets `*result` to what the program is to be told, and returns
/// Reason::kNone. Else the launch is to be a plain one: the stream has been made to wait for its
/// tasks, and the reason, which is returned, is counted. Any thread. Once kernel, stream and engine
/// are known it makes no allocation or system call and takes no lock but the stream's.
Reason TryTask(const Launch& launch, CUresult* result) noexcept;

/// Adds this thread's launches that passed by to the count of plain launches. A thread that ends
/// without this leaves up to kPassesALook - 1 of them uncounted.
void CountPassedBy() noexcept;

/// Counts one more launch or copy. Returns whether so many followed each other so closely that
/// tasks pay.
bool IsInRow() noexcept;

}  // namespace cupola::intercept::tasks
