// How often the driver was given work that is no task: what tells whether a stream may have other work outstanding.
// Counts only grow, and so do sums of them; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// For some stream or all.
inline std::atomic<uint64_t> unknown_work{1};
/// For the legacy stream, which blocking streams wait for.
inline std::atomic<uint64_t> legacy_work{0};
/// For streams that do not wait for it, or have had no task.
inline std::atomic<uint64_t> other_work{0};

/// Any stream, or all, has been given work: tasks that are put in from now on come after it.
inline void AfterWork() noexcept { unknown_work.fetch_add(1, std::memory_order_release); }

/// How much work was given to streams that the legacy stream may not wait for. Kept while tasks are made
/// (IsClean).
inline uint64_t WorkBesideLegacy() noexcept { return unknown_work.load() + other_work.load(); }

/// All that was given before WorkBesideLegacy was so much is over, of the engine's context; and whether
/// nothing has come since.
void NoteRested(const TaskEngine& engine, uint64_t work) noexcept;
bool HasRested(const TaskEngine& engine, uint64_t work) noexcept;

}  // namespace cupola::intercept::tasks
