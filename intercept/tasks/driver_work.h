// Counts how often the driver was given driver work, from which task_streams.cpp tells whether a stream may have
// driver work outstanding: it has none that is new if the counts have not changed. The counts only grow, and so do
// their sums. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// Work for a stream that is not known, or for all streams.
inline std::atomic<uint64_t> unknown_work{1};
/// Work for the legacy stream, for which blocking streams wait.
inline std::atomic<uint64_t> legacy_work{0};
/// Work for non-blocking streams, and for streams that have had no task.
inline std::atomic<uint64_t> other_work{0};

/// Records that some stream, or all, has been given work: tasks that are put in from now on come after it.
inline void AfterWork() noexcept { unknown_work.fetch_add(1, std::memory_order_release); }

/// How often work was given to streams for which the legacy stream may not wait. Only kept while tasks are made: while
/// they do not pay, driver work is not counted (IsClean in task_streams.cpp).
inline uint64_t WorkBesideLegacy() noexcept { return unknown_work.load() + other_work.load(); }

/// MarkRested records that in the engine's context all work is over that was given before WorkBesideLegacy returned
/// `work`. HasRested: whether that was recorded for this very value, that is, nothing has come since.
void MarkRested(const TaskEngine& engine, uint64_t work) noexcept;
bool HasRested(const TaskEngine& engine, uint64_t work) noexcept;

}  // namespace cupola::intercept::tasks
