#include "intercept/tasks/driver_work.h"

#include "intercept/tasks/task_engines.h"

namespace cupola::intercept::tasks {
namespace {

std::atomic<uint64_t> rested_at[kMostEngines];  // WorkBesideLegacy when at rest, by engine

}  // namespace

void MarkRested(const TaskEngine& engine, uint64_t work) noexcept {
  rested_at[engine.index()].store(work);
}
bool HasRested(const TaskEngine& engine, uint64_t work) noexcept {
  return rested_at[engine.index()].load() == work;
}

}  // namespace cupola::intercept::tasks
