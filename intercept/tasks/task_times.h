// Measures how long tasks take, and reports it to `worth` (task_worth.h). It measures when a launch
// is judged during a trial, when a column was full, and when the host has waited for tasks. Any
// thread; one at a time measures, and the others go on without.
#pragma once

#include <cstdint>

#include "intercept/tasks/task_engine.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_worth.h"

namespace cupola::intercept::tasks {

/// During a trial: whether a launch may become a task of this stream. The caller holds the stream's
/// lock. Once the stream has as many outstanding tasks as a trial allows, none of its launches may
/// until the trial is over.
bool MayTry(StreamTasks& stream, const TaskEngine& engine, uint32_t trial) noexcept;

/// Whether a launch may become a task of this stream. Costs one load when no trial is on.
inline bool MayBeTask(StreamTasks& stream, const TaskEngine& engine) noexcept {
  const uint32_t trial = worth.Trial();
  return trial == 0 || MayTry(stream, engine, trial);
}

/// Called when a task has just been put into the stream's column, which was full before.
void MeasureFullColumn(const StreamTasks& stream, const TaskEngine& engine) noexcept;

/// Called when the host has waited for `ns` for `tasks` tasks of a stream, the first of which may
/// have begun before the wait. `spreads`: they have several blocks.
void MeasureWait(const TaskEngine& engine, bool spreads, uint32_t tasks, uint64_t ns) noexcept;

/// Called when the host has waited for `ns` for a task that it put in just before, or for a launch
/// and one or two copies. If a plain launch would have taken longer (TaskWorth::kWaitedForNs),
/// tasks pay.
void MeasureShortWait(uint64_t ns) noexcept;

}  // namespace cupola::intercept::tasks
