// The engines of this process, one for each context whose launches become tasks. They are made when
// a context first needs one and never destroyed. Any thread; look-ups are lock-free.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// At most so many engines are made, counting also those of contexts that have ended.
inline constexpr uint32_t kMostEngines = 16;

namespace internal {
extern std::atomic<TaskEngine*> engines[kMostEngines];
extern std::atomic<uint32_t> engine_count;
}  // namespace internal

/// Calls `what` for each engine, also for those whose context has ended.
template <typename Do>
void ForEachEngine(Do&& what) {
  const uint32_t count = internal::engine_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) what(*internal::engines[i].load(std::memory_order_relaxed));
}

template <typename Do>
void ForEachReadyEngine(Do&& what) {
  ForEachEngine([&](TaskEngine& engine) {
    if (engine.IsReady()) what(engine);
  });
}

/// The engine of a context. Null: no launch of the context was about to become a task yet.
inline TaskEngine* EngineOf(uint64_t context) noexcept {
  TaskEngine* found = nullptr;
  ForEachEngine([&](TaskEngine& engine) {
    if (engine.IsOf(context) && engine.IsAlive()) found = &engine;
  });
  return found;
}

/// The engine of a context, made if there is none. Null: kMostEngines have been made already.
TaskEngine* EngineFor(uint64_t context) noexcept;

/// PauseTasksOfContext: a context may be about to end, with no task outstanding and none to come. One of the others follows:
/// ResumeTasksOfContext, the context goes on; EndTasksOfContext, it ends. An engine that ended with an earlier context of the
/// same handle stays as it is.
void PauseTasksOfContext(uint64_t context) noexcept;
void ResumeTasksOfContext(uint64_t context) noexcept;
void EndTasksOfContext(uint64_t context) noexcept;

inline bool AnyEngineIsReady() noexcept {
  bool any = false;
  ForEachEngine([&](TaskEngine& engine) { any |= engine.IsReady(); });
  return any;
}

inline bool AnyEngineRuns() noexcept {
  bool any = false;
  ForEachEngine([&](TaskEngine& engine) { any |= engine.IsRunning(); });
  return any;
}

}  // namespace cupola::intercept::tasks
