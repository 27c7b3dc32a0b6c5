// How long tasks take, seen where launches are judged, columns are full and streams are waited for,
// and told to `worth`. Any thread; one at a time is heard, others go on without.
#pragma once

#include <cstdint>

#include "intercept/tasks/task_engine.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_worth.h"

namespace cupola::intercept::tasks {

/// During a trial, of a launch that may become a task of a stream, under the stream's lock: whether
/// it may still. Not where enough tasks are outstanding; from then on not before the trial is over.
bool MayTry(StreamTasks& stream, const TaskEngine& engine, uint32_t trial) noexcept;

/// One load, where no trial is on.
inline bool MayBeTask(StreamTasks& stream, const TaskEngine& engine) noexcept {
  const uint32_t trial = worth.Trial();
  return trial == 0 || MayTry(stream, engine, trial);
}

/// The stream's column was full, and a task has been put in since.
void NoteFull(const StreamTasks& stream, const TaskEngine& engine) noexcept;

/// The host has waited for `tasks` of a stream, which may have begun the first of them before.
/// `spreads`: of several blocks.
void NoteWait(const TaskEngine& engine, bool spreads, uint32_t tasks, uint64_t ns) noexcept;

/// The host has waited so long for a task, or a launch and a copy or two, that it put in just before: a
/// plain launch would have been waited for longer, or not (TaskWorth::kWaitedForNs).
void NoteWaitForFew(uint64_t ns) noexcept;

}  // namespace cupola::intercept::tasks
