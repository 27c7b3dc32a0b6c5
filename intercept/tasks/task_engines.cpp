#include "intercept/tasks/task_engines.h"

#include <pthread.h>

#include <new>

#include "intercept/process/mutex_lock.h"
#include "intercept/process/participation.h"
#include "intercept/tasks/waiting_kernels.h"

namespace cupola::intercept::tasks {
namespace internal {

std::atomic<TaskEngine*> engines[kMostEngines];
std::atomic<uint32_t> engine_count{0};

}  // namespace internal

TaskEngine* EngineFor(uint64_t context) noexcept {
  if (TaskEngine* const known = EngineOf(context); known != nullptr) return known;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const MutexLock lock(mutex);
  if (TaskEngine* const known = EngineOf(context); known != nullptr) return known;
  const uint32_t count = internal::engine_count.load(std::memory_order_relaxed);
  if (count == kMostEngines) return nullptr;
  auto* const added = new (std::nothrow) TaskEngine(reinterpret_cast<CUcontext>(context), count);
  if (added == nullptr) return nullptr;
  internal::engines[count].store(added, std::memory_order_relaxed);
  internal::engine_count.store(count + 1, std::memory_order_release);
  RaiseLaunchEpoch();
  return added;
}

void PauseTasksOfContext(uint64_t context) noexcept {
  TaskEngine* const known = EngineOf(context);
  if (known == nullptr) return;
  known->Pause();
  ForgetKernelsOf(*known);
}

void ResumeTasksOfContext(uint64_t context) noexcept {
  ForEachEngine([context](TaskEngine& engine) {
    if (engine.IsOf(context)) engine.Resume();
  });
}

void EndTasksOfContext(uint64_t context) noexcept {
  ForEachEngine([context](TaskEngine& engine) {
    if (engine.IsOf(context)) engine.EndForGood();
  });
}

}  // namespace cupola::intercept::tasks
