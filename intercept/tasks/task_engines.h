// The engines of this process: one for each context whose launches become tasks. Look-ups are
// lock-free; thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// Of all contexts that the process ever has.
inline constexpr uint32_t kMostEngines = 16;

namespace internal {
extern std::atomic<TaskEngine*> engines[kMostEngines];
extern std::atomic<uint32_t> engine_count;
}  // namespace internal

/// Each that there has been, also those whose context has ended.
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

/// Of a context; null: none of its launches was to be a task yet.
inline TaskEngine* EngineOf(uint64_t context) noexcept {
  TaskEngine* found = nullptr;
  ForEachEngine([&](TaskEngine& engine) {
    if (engine.IsOf(context) && !engine.HasEnded()) found = &engine;
  });
  return found;
}

/// The same, made where there is none. Null: there have been too many.
TaskEngine* EngineFor(uint64_t context) noexcept;

/// A context is about to end, with no task outstanding and none to come; it goes on nevertheless.
void NoteContextEnds(uint64_t context) noexcept;
void NoteContextGoesOn(uint64_t context) noexcept;

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
